import { defineTool } from 'weir';

export default defineTool({
  name: 'weather',
  description: 'The weather in a city.',
  parameters: { city: { type: 'string', description: 'The city' } },
  execute: async ({ city }: { city: string }) => {
    if (city === 'Atlantis') throw new Error('there is no such city');
    return { city, temp: city.length * 3 };
  },
});
