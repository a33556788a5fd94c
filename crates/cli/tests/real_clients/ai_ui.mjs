// The AI SDK's chat, as its hooks for web pages use it: a chat with a transport, without the page.
import { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, readUIMessageStream } from 'ai';

const { base } = JSON.parse(process.argv[2]);

/** What React, Vue and Svelte keep in their own ways. */
class State {
  status = 'ready';
  error = undefined;
  messages = [];
  pushMessage(message) { this.messages = [...this.messages, message]; }
  popMessage() { this.messages = this.messages.slice(0, -1); }
  replaceMessage(index, message) { this.messages = this.messages.map((old, at) => (at === index ? structuredClone(message) : old)); }
  snapshot(value) { return structuredClone(value); }
}

class Chat extends AbstractChat {
  constructor(agent, more = {}) {
    super({ state: new State(), transport: new DefaultChatTransport({ api: `${base}/agents/${agent}/ui` }), ...more });
  }
}

const out = {};
const parts = (message) => message.parts.map((part) => ({
  type: part.type,
  ...(part.text !== undefined && { text: part.text }),
  ...(part.state !== undefined && { state: part.state }),
  ...(part.output !== undefined && { output: part.output }),
  ...(part.input !== undefined && { input: part.input }),
  ...(part.errorText !== undefined && { error: part.errorText }),
}));

// A turn with a tool, and the next one.
const chat = new Chat('helper');
await chat.sendMessage({ text: 'weather in Lisbon' });
if (chat.error) throw chat.error;
out.turn = parts(chat.lastMessage);
await chat.sendMessage({ text: 'thanks' });
out.next = parts(chat.lastMessage);
out.roles = chat.messages.map((message) => message.role);

// An answer again, what follows it, and a message in other words.
await chat.regenerate();
if (chat.error) throw chat.error;
out.again = { parts: parts(chat.lastMessage), roles: chat.messages.map((message) => message.role) };
await chat.sendMessage({ text: 'what did I say?' });
if (chat.error) throw chat.error;
out.afterwards = parts(chat.lastMessage);
await chat.regenerate({ messageId: chat.messages[1].id });
if (chat.error) throw chat.error;
out.first_again = { parts: parts(chat.lastMessage), roles: chat.messages.map((message) => message.role) };
await chat.sendMessage({ text: 'weather in Oslo', messageId: chat.messages[0].id });
if (chat.error) throw chat.error;
out.changed = { parts: parts(chat.lastMessage), roles: chat.messages.map((message) => message.role) };
out.chat = chat.id;

// A chat that began elsewhere: what it says was said is its history.
const moved = new Chat('helper');
moved.messages = chat.messages.map((message, at) => ({ ...message, id: `moved-${at}` }));
await moved.sendMessage({ text: 'and now?' });
if (moved.error) throw moved.error;
out.history = parts(moved.lastMessage);

// An approval: asked, answered, and the call goes on.
for (const approved of [true, false]) {
  const careful = new Chat('careful', { sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses });
  await careful.sendMessage({ text: 'refund 5' });
  if (careful.error) throw careful.error;
  const asked = careful.lastMessage.parts.find((part) => part.state === 'approval-requested');
  const name = approved ? 'approved' : 'denied';
  out[name] = { asked: parts(careful.lastMessage) };
  await careful.addToolApprovalResponse({ id: asked.approval.id, approved, reason: approved ? undefined : 'too much' });
  // What is sent by itself is under way when this returns.
  const until = Date.now() + 60_000;
  while (careful.status !== 'ready' && careful.status !== 'error' && Date.now() < until) await new Promise((done) => setTimeout(done, 10));
  if (careful.error) throw careful.error;
  out[name].after = parts(careful.lastMessage);
}

// A page that is loaded again in the middle of an answer takes it up.
const transport = new DefaultChatTransport({ api: `${base}/agents/helper/ui` });
const message = { id: 'm1', role: 'user', parts: [{ type: 'text', text: 'slow' }] };
const leave = new AbortController();
const first = await transport.sendMessages({ chatId: 'left', messages: [message], trigger: 'submit-message', abortSignal: leave.signal });
const reader = first.getReader();
await reader.read();
leave.abort();
await reader.cancel().catch(() => {});
const again = await transport.reconnectToStream({ chatId: 'left' });
let last;
if (again) for await (const seen of readUIMessageStream({ stream: again })) last = seen;
out.resumed = last && parts(last);
out.nothing = await transport.reconnectToStream({ chatId: 'never' });
console.log(JSON.stringify(out));
