// The AI SDK with its provider for compatible servers.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateText, streamText } from 'ai';

const { base } = JSON.parse(process.argv[2]);
const weir = createOpenAICompatible({ name: 'weir', baseURL: `${base}/v1`, apiKey: 'none', includeUsage: true });
const out = {};

const streamed = streamText({ model: weir('helper'), prompt: 'weather in Lisbon' });
const parts = [];
for await (const part of streamed.fullStream) parts.push(part.type);
out.parts = [...new Set(parts)];
out.text = await streamed.text;
out.reasoning = await streamed.reasoningText;
out.finish = await streamed.finishReason;
out.usage = await streamed.usage;

const whole = await generateText({
  model: weir('helper'),
  messages: [
    { role: 'user', content: 'weather in Lisbon' },
    { role: 'assistant', content: out.text },
    { role: 'user', content: 'thanks' },
  ],
});
out.history = whole.text;
const session = whole.response.headers['x-weir-session'];
const more = await generateText({ model: weir('helper'), prompt: 'and then?', headers: { 'X-Weir-Session': session } });
out.more = more.text;
out.same = more.response.headers['x-weir-session'] === session;

try {
  await generateText({ model: weir('nobody'), prompt: 'hi' });
} catch (error) {
  out.missing = { is: APICallError.isInstance(error), status: error.statusCode, message: error.message };
}
const failing = streamText({ model: weir('helper'), prompt: 'fail', onError: () => {} });
for await (const part of failing.fullStream) if (part.type === 'error') out.failed = String(part.error?.message ?? part.error);
console.log(JSON.stringify(out));
