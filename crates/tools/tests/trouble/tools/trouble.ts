import { defineTool } from 'weir';
import type { Input } from './lib/types';
import { checked, Kind } from './lib/check';

interface Unused {
  a: string;
}

// A comment that is not in what runs.
export default defineTool({
  name: 'trouble',
  description: 'Fails in the way it is asked to',
  parameters: { how: { type: 'string' } },
  execute: async ({ how }: Input): Promise<unknown> => {
    const nothing = undefined as unknown as { field: string };
    switch (how as Kind | string) {
      case 'here':
        throw new RangeError('thrown here');
      case 'type':
        return nothing.field;
      case 'there':
        return checked(how);
      case 'later': {
        await Promise.resolve();
        throw new Error('thrown later');
      }
      case 'reject':
        return Promise.reject(new Error('rejected'));
      case 'fetch': {
        const answer = await fetch('https://not.listed.example/?key=hush');
        return answer.text();
      }
      case 'spin':
        for (let n = 0; ; n += how.length);
      case 'spin-later': {
        await null;
        for (let n = 0; ; n += how.length);
      }
      case 'deep': {
        const deeper = (n: number): number => deeper(n + 1) + 1;
        return deeper(0);
      }
    }
    return how;
  },
});
