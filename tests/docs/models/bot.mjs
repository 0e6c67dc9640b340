// The model of the page's example, scripted: one tool call, then an answer.
import { MockLanguageModelV3 } from "ai/test";

const usage = { inputTokens: { total: 10 }, outputTokens: { total: 5 } };
const call = { type: "tool-call", toolCallId: "call_1", toolName: "get_forecast", input: '{"city": "Paris"}' };
const turns = [
  { content: [call], finishReason: { unified: "tool-calls" }, usage, warnings: [] },
  { content: [{ type: "text", text: "Sunny." }], finishReason: { unified: "stop" }, usage, warnings: [] },
];
export const MODEL = new MockLanguageModelV3({ doGenerate: async () => turns.shift() });
