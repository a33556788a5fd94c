import { defineTool } from 'weir';

export default defineTool({
  name: 'refund',
  description: 'Gives money back.',
  parameters: { amount: { type: 'string', description: 'How much' } },
  execute: async ({ amount }: { amount: string }) => `refunded ${amount}`,
});
