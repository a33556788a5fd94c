import { defineTool } from 'weir';

export default defineTool({
  name: '{{name}}',
  description: 'Say here what the tool does, for the model that decides when to use it.',
  parameters: {
    text: { type: 'string', description: 'What to work on' },
  },
  execute: async ({ text }: { text: string }) => {
    return { length: text.length };
  },
});
