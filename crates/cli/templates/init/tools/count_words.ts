import { defineTool } from 'weir';

// A tool of this project: TypeScript, run in a sandbox of its own for each call. No Node, no files, no network unless the
// agent's entry names `hosts`. Try it with: weir tools call helper count_words '{"text":"a low dam"}'
export default defineTool({
  name: 'count_words',
  description: 'Counts the words and characters of a text.',
  parameters: {
    text: { type: 'string', description: 'The text' },
  },
  execute: async ({ text }: { text: string }) => {
    const words = text.split(/\s+/).filter((word) => word.length > 0);
    return { words: words.length, characters: text.length };
  },
});
