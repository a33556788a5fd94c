// URLs, by the rules of the host.
(host, shared) => {
  'use strict';
  const { define, wellFormed, stringify } = shared;
  const pairsOf = (init) => {
    if (typeof init === 'string') return host.parseQuery(wellFormed(init.startsWith('?') ? init.slice(1) : init));
    const pairs = init == null ? [] : typeof init[Symbol.iterator] === 'function' ? [...init] : Object.entries(init);
    return pairs.map(([name, value]) => [wellFormed(name), wellFormed(value)]);
  };
  class URLSearchParams {
    #pairs;
    #changed;
    constructor(init = '', changed = () => {}) {
      this.#pairs = pairsOf(init);
      this.#changed = changed;
    }
    get size() {
      return this.#pairs.length;
    }
    append(name, value) {
      this.#pairs.push([wellFormed(name), wellFormed(value)]);
      this.#changed(this);
    }
    delete(name, value) {
      this.#pairs = this.#pairs.filter((pair) => pair[0] !== `${name}` || (value !== undefined && pair[1] !== `${value}`));
      this.#changed(this);
    }
    get(name) {
      return this.#pairs.find((pair) => pair[0] === `${name}`)?.[1] ?? null;
    }
    getAll(name) {
      return this.#pairs.filter((pair) => pair[0] === `${name}`).map((pair) => pair[1]);
    }
    has(name, value) {
      return this.#pairs.some((pair) => pair[0] === `${name}` && (value === undefined || pair[1] === `${value}`));
    }
    set(name, value) {
      const at = this.#pairs.findIndex((pair) => pair[0] === `${name}`);
      const rest = this.#pairs.filter((pair, index) => pair[0] !== `${name}` || index === at);
      const pair = [wellFormed(name), wellFormed(value)];
      this.#pairs = at < 0 ? [...rest, pair] : rest.map((each) => (each[0] === pair[0] ? pair : each));
      this.#changed(this);
    }
    sort() {
      this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
      this.#changed(this);
    }
    forEach(callback, self) {
      for (const [name, value] of this) callback.call(self, value, name, this);
    }
    *keys() {
      for (const [name] of this.#pairs) yield name;
    }
    *values() {
      for (const [, value] of this.#pairs) yield value;
    }
    *entries() {
      for (const [name, value] of this.#pairs) yield [name, value];
    }
    [Symbol.iterator]() {
      return this.entries();
    }
    toString() {
      return host.writeQuery(this.#pairs);
    }
  }
  class URL {
    #parts;
    #query;
    constructor(text, base) {
      this.#parts = host.url(wellFormed(text), base === undefined ? undefined : wellFormed(base));
      if (!this.#parts) throw new TypeError(`${stringify(`${text}`)} is no URL`);
      this.#query = this.#queryOf();
    }
    #queryOf() {
      return new URLSearchParams(this.#parts.search, (query) => {
        this.#parts = host.urlWith(this.#parts.href, 'search', query.toString()) ?? this.#parts;
      });
    }
    static canParse(text, base) {
      return host.url(wellFormed(text), base === undefined ? undefined : wellFormed(base)) !== undefined;
    }
    static parse(text, base) {
      return URL.canParse(text, base) ? new URL(text, base) : null;
    }
    static {
      for (const name of host.urlParts) {
        Object.defineProperty(URL.prototype, name, {
          get() {
            return this.#parts[name];
          },
          set(value) {
            const parts = host.urlWith(this.#parts.href, name, wellFormed(value));
            if (!parts && name === 'href') throw new TypeError(`${stringify(`${value}`)} is no URL`);
            this.#parts = parts ?? this.#parts;
            if (name === 'search' || name === 'href') this.#query = this.#queryOf();
          },
          configurable: true,
          enumerable: true,
        });
      }
    }
    get origin() {
      return this.#parts.origin;
    }
    get searchParams() {
      return this.#query;
    }
    toString() {
      return this.#parts.href;
    }
    toJSON() {
      return this.#parts.href;
    }
  }
  define('URL', URL);
  define('URLSearchParams', URLSearchParams);
  shared.URLSearchParams = URLSearchParams;
}
