// Requests, and what stops them.
(host, shared) => {
  'use strict';
  const { define, wellFormed, typeName, parse, stringify, binary, bytesOf, arm, DOMException } = shared;

  // Stopping what is under way.
  class AbortSignal {
    aborted = false;
    reason = undefined;
    onabort = null;
    #listeners = new Set();
    addEventListener(type, listener) {
      if (type === 'abort') this.#listeners.add(listener);
    }
    removeEventListener(type, listener) {
      if (type === 'abort') this.#listeners.delete(listener);
    }
    throwIfAborted() {
      if (this.aborted) throw this.reason;
    }
    static abort(reason) {
      const controller = new AbortController();
      controller.abort(reason);
      return controller.signal;
    }
    static timeout(wait) {
      const controller = new AbortController();
      arm(() => controller.abort(new DOMException('the time is over', 'TimeoutError')), wait, false, []);
      return controller.signal;
    }
    static fire(signal, reason) {
      if (signal.aborted) return;
      signal.aborted = true;
      signal.reason = reason === undefined ? new DOMException('it was aborted', 'AbortError') : reason;
      const event = { type: 'abort', target: signal };
      signal.onabort?.(event);
      for (const listener of signal.#listeners) listener.call(signal, event);
    }
  }
  const abort = AbortSignal.fire;
  delete AbortSignal.fire;
  class AbortController {
    signal = new AbortSignal();
    abort(reason) {
      abort(this.signal, reason);
    }
  }
  define('AbortSignal', AbortSignal);
  define('AbortController', AbortController);

  // Requests.
  class Headers {
    #values = new Map();
    constructor(init) {
      const pairs = init == null ? [] : typeof init[Symbol.iterator] === 'function' ? init : Object.entries(init);
      for (const [name, value] of pairs) this.append(name, value);
    }
    append(name, value) {
      const key = wellFormed(name).toLowerCase();
      const text = wellFormed(value).trim();
      this.#values.set(key, this.#values.has(key) ? `${this.#values.get(key)}, ${text}` : text);
    }
    set(name, value) {
      this.#values.set(wellFormed(name).toLowerCase(), wellFormed(value).trim());
    }
    delete(name) {
      this.#values.delete(wellFormed(name).toLowerCase());
    }
    get(name) {
      return this.#values.get(wellFormed(name).toLowerCase()) ?? null;
    }
    has(name) {
      return this.#values.has(wellFormed(name).toLowerCase());
    }
    forEach(callback, self) {
      for (const [name, value] of this) callback.call(self, value, name, this);
    }
    *keys() {
      for (const [name] of this) yield name;
    }
    *values() {
      for (const [, value] of this) yield value;
    }
    entries() {
      return [...this.#values].sort(([a], [b]) => (a < b ? -1 : 1))[Symbol.iterator]();
    }
    [Symbol.iterator]() {
      return this.entries();
    }
  }
  define('Headers', Headers);

  const SECRET = {};
  class Response {
    #body;
    bodyUsed = false;
    constructor(secret, answer) {
      if (secret !== SECRET) throw new TypeError('a response comes from `fetch`');
      this.#body = answer.body;
      this.status = answer.status;
      this.statusText = answer.statusText;
      this.ok = answer.status >= 200 && answer.status < 300;
      this.url = answer.url;
      this.redirected = answer.redirected;
      this.type = 'basic';
      this.headers = new Headers(answer.headers);
    }
    #take() {
      if (this.bodyUsed) throw new TypeError('the body was read already');
      this.bodyUsed = true;
      const body = this.#body;
      this.#body = '';
      return body;
    }
    #text() {
      const body = this.#take();
      const text = typeof body === 'string' ? body : host.decode(binary(new Uint8Array(body)), false);
      return text.startsWith('\ufeff') ? text.slice(1) : text;
    }
    async text() {
      return this.#text();
    }
    async json() {
      const text = this.#text();
      try {
        return parse(text);
      } catch (error) {
        const start = text.length > 80 ? `${text.slice(0, 80)}…` : text;
        throw new SyntaxError(`the answer with status ${this.status} is no JSON: ${error.message}; it begins with ${stringify(start)}`);
      }
    }
    async arrayBuffer() {
      const body = this.#take();
      return typeof body === 'string' ? host.encode(body) : body;
    }
    async bytes() {
      return new Uint8Array(await this.arrayBuffer());
    }
  }
  define('Response', Response);

  const bodyOf = (body, headers) => {
    const typed = (type) => {
      if (!headers.has('content-type')) headers.set('content-type', type);
    };
    if (body == null) return [undefined, false];
    if (shared.URLSearchParams && body instanceof shared.URLSearchParams) {
      typed('application/x-www-form-urlencoded;charset=UTF-8');
      return [body.toString(), false];
    }
    if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return [binary(bytesOf(body)), true];
    if (typeof body === 'object') {
      throw new TypeError(`a body is text or bytes, not ${typeName(body)}; use \`JSON.stringify\``);
    }
    typed('text/plain;charset=UTF-8');
    return [wellFormed(body), false];
  };
  const waiting = new Map();
  let lastFetch = 0;
  const fetch = (input, init) => {
    // Made here, where it is known who asks: later there is no way back to the line in the script.
    const failure = new TypeError();
    return new Promise((resolve, reject) => {
      const { method = 'GET', headers: given, body, signal } = init ?? {};
      const headers = new Headers(given);
      const [content, isBinary] = bodyOf(body, headers);
      if (signal?.aborted) return reject(signal.reason);
      lastFetch += 1;
      const id = lastFetch;
      const done = () => {
        waiting.delete(id);
        signal?.removeEventListener('abort', onAbort);
      };
      const onAbort = () => {
        done();
        host.abort(id);
        reject(signal.reason);
      };
      waiting.set(id, (error, answer) => {
        done();
        if (answer) return resolve(new Response(SECRET, answer));
        failure.message = error;
        reject(failure);
      });
      signal?.addEventListener('abort', onAbort);
      const refused = host.fetch(id, wellFormed(method).toUpperCase(), wellFormed(input?.href ?? input), [...headers], content, isBinary);
      if (refused) waiting.get(id)(refused);
    });
  };
  define('fetch', fetch);
  shared.Response = Response;
  shared.settle = (id, error, answer) => waiting.get(id)?.(error, answer);
}
