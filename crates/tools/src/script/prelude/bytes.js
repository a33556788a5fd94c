// Bytes and text.
(host, shared) => {
  'use strict';
  const { define, wellFormed, binary, bytesOf, DOMException } = shared;

  class TextEncoder {
    get encoding() {
      return 'utf-8';
    }
    encode(text = '') {
      return new Uint8Array(host.encode(wellFormed(text)));
    }
  }
  class TextDecoder {
    #fatal;
    #keepsMark;
    constructor(label = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
      if (!/^\s*(unicode-1-1-utf-8|utf-?8)\s*$/i.test(label)) throw new RangeError(`only utf-8 can be decoded, not ${label}`);
      this.#fatal = Boolean(fatal);
      this.#keepsMark = Boolean(ignoreBOM);
    }
    get encoding() {
      return 'utf-8';
    }
    decode(data = new Uint8Array()) {
      const text = host.decode(binary(bytesOf(data)), this.#fatal);
      if (text === undefined) throw new TypeError('the bytes are no utf-8');
      return this.#keepsMark || !text.startsWith('\ufeff') ? text : text.slice(1);
    }
  }
  define('TextEncoder', TextEncoder);
  define('TextDecoder', TextDecoder);
  define('btoa', (text) => {
    const characters = String(text);
    if (/[^\0-\xff]/.test(characters)) throw new DOMException('btoa takes characters up to U+00FF', 'InvalidCharacterError');
    return host.btoa(characters);
  });
  define('atob', (text) => {
    const decoded = host.atob(wellFormed(text));
    if (decoded === undefined) throw new DOMException('that is no base64', 'InvalidCharacterError');
    return decoded;
  });

  const clone = (value, seen) => {
    if (typeof value === 'function' || typeof value === 'symbol') {
      throw new DOMException(`a ${typeof value} cannot be cloned`, 'DataCloneError');
    }
    if (value === null || typeof value !== 'object') return value;
    if (seen.has(value)) return seen.get(value);
    const keep = (copy) => {
      seen.set(value, copy);
      return copy;
    };
    if (value instanceof Date) return keep(new Date(value.getTime()));
    if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
    if (value instanceof ArrayBuffer) return keep(value.slice(0));
    if (ArrayBuffer.isView(value)) return keep(new value.constructor(value));
    if (value instanceof Map) {
      const copy = keep(new Map());
      for (const [key, each] of value) copy.set(clone(key, seen), clone(each, seen));
      return copy;
    }
    if (value instanceof Set) {
      const copy = keep(new Set());
      for (const each of value) copy.add(clone(each, seen));
      return copy;
    }
    if (value instanceof Error) return keep(Object.assign(new Error(value.message), { name: value.name, stack: value.stack }));
    const copy = keep(Array.isArray(value) ? [] : {});
    for (const key of Object.keys(value)) copy[key] = clone(value[key], seen);
    return copy;
  };
  define('structuredClone', (value) => clone(value, new Map()));

  define('crypto', {
    randomUUID: () => host.uuid(),
    getRandomValues: (array) => {
      const bytes = bytesOf(array);
      if (bytes.length > 65536) throw new DOMException('more than 65536 random bytes at once', 'QuotaExceededError');
      bytes.set(new Uint8Array(host.random(bytes.length)));
      return array;
    },
  });
}
