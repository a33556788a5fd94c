// What a script tool has: `defineTool`, and the globals beside the language. Written by `weir build` and `weir init`; do not edit.
// A script has no files, no processes, no environment and no Node. It reaches the hosts that its entry lists under `hosts`.

declare module 'weir' {
  /** One parameter: JSON Schema, and `optional`. A parameter with a `default` is optional, too. */
  export interface Parameter {
    readonly type?: Type | readonly Type[];
    readonly description?: string;
    readonly enum?: readonly unknown[];
    readonly default?: unknown;
    readonly optional?: boolean;
    readonly items?: Parameter;
    readonly properties?: { readonly [name: string]: Parameter };
    readonly required?: readonly string[];
    readonly [keyword: string]: unknown;
  }

  export type Type = 'string' | 'number' | 'integer' | 'boolean' | 'object' | 'array' | 'null';

  /** A JSON Schema of all arguments, instead of one entry for each. */
  export interface Schema extends Parameter {
    readonly type: 'object';
  }

  /** The call that a tool is run for. */
  export interface Call {
    /** The same for every attempt of one call: what is sent to a service that takes idempotency keys. */
    readonly key: string;
    /** 1 for the first attempt. */
    readonly attempt: number;
  }

  export interface Tool {
    readonly name?: string;
    readonly description: string;
  }

  type Value<P> = P extends { readonly enum: readonly (infer E)[] }
    ? E
    : P extends { readonly type: infer T }
      ? T extends 'string'
        ? string
        : T extends 'number' | 'integer'
          ? number
          : T extends 'boolean'
            ? boolean
            : T extends 'null'
              ? null
              : T extends 'array'
                ? P extends { readonly items: infer I }
                  ? Value<I>[]
                  : unknown[]
                : T extends 'object'
                  ? { [name: string]: unknown }
                  : unknown
      : unknown;

  type OptionalNames<P> = {
    [K in keyof P]: P[K] extends { readonly optional: true } | { readonly default: unknown } ? K : never;
  }[keyof P];

  /** The arguments that parameters describe. */
  export type Arguments<P> = { [K in Exclude<keyof P, OptionalNames<P>>]: Value<P[K]> } & {
    [K in OptionalNames<P>]?: Value<P[K]>;
  };

  /**
   * A tool. `name`, `description` and `parameters` are written out, as they are read without running the script. `execute` returns
   * text, or anything that is JSON.
   */
  export function defineTool<const P extends { readonly [name: string]: Parameter } = {}>(tool: {
    /** The name that the model sees; the file's name by default. */
    name?: string;
    /** What it does and when to use it, for the model. */
    description: string;
    parameters?: P;
    execute(args: Arguments<P>, call: Call): unknown;
  }): Tool;
  export function defineTool(tool: {
    name?: string;
    description: string;
    parameters: Schema;
    execute(args: any, call: Call): unknown;
  }): Tool;
}

/** The name of the same module elsewhere. */
declare module '@lush-agents/runtime' {
  export * from 'weir';
}

/** Written to the log of the call, which `weir session show` prints. */
declare const console: {
  debug(...values: unknown[]): void;
  log(...values: unknown[]): void;
  info(...values: unknown[]): void;
  warn(...values: unknown[]): void;
  error(...values: unknown[]): void;
  trace(...values: unknown[]): void;
};

declare function setTimeout(callback: (...rest: any[]) => void, wait?: number, ...rest: any[]): number;
declare function setInterval(callback: (...rest: any[]) => void, wait?: number, ...rest: any[]): number;
declare function clearTimeout(id: number | undefined): void;
declare function clearInterval(id: number | undefined): void;
declare function queueMicrotask(callback: () => void): void;
declare function structuredClone<T>(value: T): T;
declare function btoa(text: string): string;
declare function atob(text: string): string;

declare class DOMException extends Error {
  constructor(message?: string, name?: string);
}

declare class TextEncoder {
  readonly encoding: 'utf-8';
  encode(text?: string): Uint8Array;
}

declare class TextDecoder {
  constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
  readonly encoding: 'utf-8';
  decode(data?: ArrayBuffer | ArrayBufferView): string;
}

declare const crypto: {
  randomUUID(): string;
  getRandomValues<T extends ArrayBufferView>(array: T): T;
};

declare class URLSearchParams {
  constructor(init?: string | Iterable<readonly [string, string]> | { readonly [name: string]: string });
  readonly size: number;
  append(name: string, value: string): void;
  delete(name: string, value?: string): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string, value?: string): boolean;
  set(name: string, value: string): void;
  sort(): void;
  forEach(callback: (value: string, name: string, all: URLSearchParams) => void, self?: unknown): void;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  entries(): IterableIterator<[string, string]>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
  toString(): string;
}

declare class URL {
  constructor(text: string | URL, base?: string | URL);
  static canParse(text: string | URL, base?: string | URL): boolean;
  static parse(text: string | URL, base?: string | URL): URL | null;
  href: string;
  protocol: string;
  username: string;
  password: string;
  host: string;
  hostname: string;
  port: string;
  pathname: string;
  search: string;
  hash: string;
  readonly origin: string;
  readonly searchParams: URLSearchParams;
  toString(): string;
  toJSON(): string;
}

declare class AbortSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  onabort: ((event: { type: 'abort'; target: AbortSignal }) => void) | null;
  addEventListener(type: 'abort', listener: (event: { type: 'abort'; target: AbortSignal }) => void): void;
  removeEventListener(type: 'abort', listener: (event: { type: 'abort'; target: AbortSignal }) => void): void;
  throwIfAborted(): void;
  static abort(reason?: unknown): AbortSignal;
  static timeout(wait: number): AbortSignal;
}

declare class AbortController {
  readonly signal: AbortSignal;
  abort(reason?: unknown): void;
}

declare class Headers {
  constructor(init?: Iterable<readonly [string, string]> | { readonly [name: string]: string });
  append(name: string, value: string): void;
  set(name: string, value: string): void;
  delete(name: string): void;
  get(name: string): string | null;
  has(name: string): boolean;
  forEach(callback: (value: string, name: string, all: Headers) => void, self?: unknown): void;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  entries(): IterableIterator<[string, string]>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
}

/** The answer of `fetch`. */
interface Response {
  readonly status: number;
  readonly statusText: string;
  readonly ok: boolean;
  readonly url: string;
  readonly redirected: boolean;
  readonly type: 'basic';
  readonly headers: Headers;
  readonly bodyUsed: boolean;
  text(): Promise<string>;
  json(): Promise<any>;
  arrayBuffer(): Promise<ArrayBuffer>;
  bytes(): Promise<Uint8Array>;
}

/** Reaches the hosts that the tool's entry lists. With `access: read`, requests other than GET and HEAD are refused. */
declare function fetch(
  input: string | URL,
  init?: {
    method?: string;
    headers?: Headers | Iterable<readonly [string, string]> | { readonly [name: string]: string };
    body?: string | ArrayBuffer | ArrayBufferView | URLSearchParams | null;
    signal?: AbortSignal;
  },
): Promise<Response>;
