// What every script has beside the language. It is run before a script, with `host`, which the script never sees; it returns what
// the host calls. What not every script needs is in the files beside this one, and read when a script first asks for it:
// reading code is most of what a call costs.
(host) => {
  'use strict';
  const { parse, stringify } = JSON;
  const { fromCharCode } = String;
  const global = globalThis;
  const define = (name, value) =>
    Object.defineProperty(global, name, { value, writable: true, configurable: true, enumerable: false });
  const wellFormed = (value) => String(value).toWellFormed();
  const typeName = (value) => (value === null ? 'null' : value?.constructor?.name || typeof value);

  // Code is what was built and reviewed, not text that comes along while it runs.
  const refuse = function Function() {
    throw new EvalError('text cannot be run as code here');
  };
  refuse.prototype = Function.prototype;
  for (const kind of [function () {}, async function () {}, function* () {}, async function* () {}]) {
    Object.defineProperty(Object.getPrototypeOf(kind), 'constructor', { value: refuse });
  }
  define('Function', refuse);
  for (const name of ['eval', 'Atomics', 'SharedArrayBuffer']) delete global[name];

  // Some built-in functions count through a length without looking up, so that they could not be stopped. No memory here
  // holds arrays this long.
  const LENGTH_MAX = 2 ** 24;
  const methods = 'concat copyWithin fill flat join reverse shift slice sort splice toReversed toSorted toSpliced unshift with';
  for (const name of methods.split(' ')) {
    const method = Array.prototype[name];
    const guarded = {
      [name](...rest) {
        for (const each of [this, ...rest]) {
          if (each?.length > LENGTH_MAX && typeof each === 'object') {
            throw new RangeError(`an array of ${each.length} elements is too long`);
          }
        }
        return Reflect.apply(method, this, rest);
      },
    }[name];
    Object.defineProperty(guarded, 'length', { value: method.length, configurable: true });
    Object.defineProperty(Array.prototype, name, { value: guarded, writable: true, configurable: true });
  }

  class DOMException extends Error {
    constructor(message = '', name = 'Error') {
      super(message);
      Object.defineProperty(this, 'name', { value: name, configurable: true });
    }
  }
  define('DOMException', DOMException);

  // Console.
  const inspect = (value, budget, depth, seen) => {
    if (--budget.left < 0) return '…';
    switch (typeof value) {
      case 'string':
        return depth === 0 ? value : stringify(value);
      case 'bigint':
        return `${value}n`;
      case 'symbol':
        return value.toString();
      case 'function':
        return `[function ${value.name}]`;
      case 'object':
        break;
      default:
        return String(value);
    }
    if (value === null) return 'null';
    if (seen.has(value)) return '[circular]';
    if (value instanceof Error) return value.message ? `${value.name}: ${value.message}` : String(value.name);
    if (value instanceof Date || value instanceof RegExp) return String(value);
    if (depth > 4) return '…';
    seen.add(value);
    const inner = (each) => inspect(each, budget, depth + 1, seen);
    let text;
    if (Array.isArray(value) || ArrayBuffer.isView(value)) {
      const parts = [];
      for (let at = 0; at < value.length && budget.left > 0; at += 1) parts.push(inner(value[at]));
      text = `[${parts.join(', ')}${parts.length < value.length ? ', …' : ''}]`;
    } else if (value instanceof Map || value instanceof Set) {
      const parts = [];
      for (const each of value) {
        if (budget.left <= 0) break;
        parts.push(inner(each));
      }
      text = `${value.constructor.name}(${value.size}) {${parts.join(', ')}}`;
    } else {
      const parts = [];
      for (const key in value) {
        if (budget.left <= 0 || !Object.hasOwn(value, key)) break;
        parts.push(`${key}: ${inner(value[key])}`);
      }
      text = `{${parts.join(', ')}}`;
    }
    seen.delete(value);
    return text;
  };
  const console = {};
  for (const level of ['debug', 'log', 'info', 'warn', 'error', 'trace']) {
    console[level] = (...values) => {
      const budget = { left: 1000 };
      let text;
      try {
        text = values.map((value) => inspect(value, budget, 0, new Set())).join(' ');
      } catch (error) {
        text = `(cannot be shown: ${error})`;
      }
      host.log((level === 'warn' || level === 'error' ? `${level}: ` : '') + wellFormed(text));
    };
  }
  define('console', console);

  // Timers.
  const timers = new Map();
  let lastTimer = 0;
  const arm = (callback, wait, repeat, rest) => {
    if (typeof callback !== 'function') throw new TypeError('a timer needs a function to call');
    if (timers.size >= host.timersMax) throw new RangeError(`more than ${host.timersMax} timers at once`);
    const delay = Math.max(repeat ? 1 : 0, Number(wait) || 0);
    lastTimer += 1;
    timers.set(lastTimer, { callback, delay, repeat, rest });
    host.arm(lastTimer, delay);
    return lastTimer;
  };
  const disarm = (id) => {
    if (timers.delete(id)) host.disarm(id);
  };
  const fire = (id) => {
    const timer = timers.get(id);
    if (!timer) return;
    if (timer.repeat) host.arm(id, timer.delay);
    else timers.delete(id);
    try {
      timer.callback(...timer.rest);
    } catch (error) {
      console.error('in a timer:', error);
    }
  };
  define('setTimeout', (callback, wait, ...rest) => arm(callback, wait, false, rest));
  define('setInterval', (callback, wait, ...rest) => arm(callback, wait, true, rest));
  define('clearTimeout', disarm);
  define('clearInterval', disarm);
  define('queueMicrotask', (callback) => {
    Promise.resolve().then(callback);
  });

  // Bytes.
  const binary = (bytes) => {
    const parts = [];
    for (let at = 0; at < bytes.length; at += 4096) parts.push(fromCharCode.apply(null, bytes.subarray(at, at + 4096)));
    return parts.join('');
  };
  const bytesOf = (data) => {
    if (data instanceof ArrayBuffer) return new Uint8Array(data);
    if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    throw new TypeError(`bytes are needed, not ${typeName(data)}`);
  };

  // The rest, when it is asked for. `shared` is what the parts have in common.
  const shared = { define, wellFormed, typeName, parse, stringify, binary, bytesOf, arm, DOMException };
  const parts = {
    bytes: ['TextEncoder', 'TextDecoder', 'btoa', 'atob', 'structuredClone', 'crypto'],
    urls: ['URL', 'URLSearchParams'],
    requests: ['fetch', 'Headers', 'Response', 'AbortController', 'AbortSignal'],
  };
  for (const part in parts) {
    for (const name of parts[part]) {
      Object.defineProperty(global, name, {
        get() {
          host.part(part)(host, shared);
          return global[name];
        },
        set(value) {
          define(name, value);
        },
        configurable: true,
        enumerable: false,
      });
    }
  }
  const settle = (id, error, answer) => shared.settle(id, error, answer);

  // A call.
  const advice = { Response: 'return `await response.json()` or `.text()`', Map: 'return `Object.fromEntries(map)`', Set: 'return `[...set]`' };
  const written = (result) => {
    if (result === undefined) return undefined;
    if (typeof result === 'string') return result.toWellFormed();
    const name = shared.Response && result instanceof shared.Response ? 'Response' : result instanceof Map ? 'Map' : result instanceof Set ? 'Set' : undefined;
    if (name) throw new TypeError(`\`execute\` returned a ${name}, which is no JSON; ${advice[name]}`);
    let json;
    try {
      json = stringify(result);
    } catch (error) {
      if (error instanceof InternalError) throw error;
      throw new TypeError(`what \`execute\` returned is no JSON: ${error?.message ?? error}`);
    }
    if (json === undefined) throw new TypeError(`\`execute\` returned a ${typeof result}, which is no JSON`);
    return json;
  };
  const run = async (module, input, context) => {
    const tool = module.default;
    if (typeof tool?.execute !== 'function') {
      throw new TypeError('the default export is no tool with `execute`; write `export default defineTool({ … })`');
    }
    const text = written(await tool.execute(parse(input), parse(context)));
    if (text?.length > host.resultMax) {
      throw new RangeError(`the result has more than ${host.resultMax} characters; return less, or a part`);
    }
    return text;
  };
  // A hook is asked about an event; what it has against it, if anything.
  const judge = async (module, input) => {
    const hook = module.default;
    if (typeof hook !== 'function') {
      throw new TypeError('the default export is no function; write `export default (event) => { … }`');
    }
    const said = await hook(parse(input));
    if (said === false) return '';
    const why = said?.refuse;
    return why === undefined || why === null || why === false ? undefined : why === true ? '' : `${why}`.toWellFormed();
  };
  return { run, judge, fire, settle };
}
