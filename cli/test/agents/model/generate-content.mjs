/** The dialect of Google's generateContent, which Gemini CLI speaks. */

import { nextId, wordsOf } from './script.mjs';

export const path = /:(streamGenerateContent|generateContent)$/;

export const read = ({ contents = [], tools = [] }) => ({
  tools: tools
    .flatMap(({ functionDeclarations = [] }) => functionDeclarations)
    .map(({ name, parametersJsonSchema, parameters }) => ({ name, schema: parametersJsonSchema ?? parameters })),
  history: contents.flatMap(({ role, parts = [] }) => {
    if (role === 'model') return parts.some(({ functionCall }) => functionCall) ? [{ role: 'call' }] : [];
    const text = parts.map((part) => part.text ?? '').join('\n');
    const isResult = parts.some(({ functionResponse }) => functionResponse);
    return [...(isResult ? [{ role: 'result' }] : []), ...(text === '' ? [] : [{ role: 'user', text }])];
  }),
  hasPicture: JSON.stringify(contents).includes('"inlineData"'),
});

/** The JSON that answers the agent's own questions to the model, such as which model to use. */
const ROUTING_ANSWER = { reasoning: 'r', next_speaker: 'user', model_choice: 'flash', complexity_reasoning: 'r', complexity_score: 10 };

export async function write(
  { texts, calls },
  /** @type {{generationConfig?: Record<string, any>}} */ { generationConfig = {} },
  { url, answer, send },
) {
  const responseId = nextId('gemini');
  const chunk = (parts, finishReason) => ({
    candidates: [{ index: 0, content: { role: 'model', parts }, ...(finishReason ? { finishReason } : {}) }],
    usageMetadata: { promptTokenCount: 1234, candidatesTokenCount: 56, totalTokenCount: 1290 },
    modelVersion: 'scripted',
    responseId,
  });
  const wantsJson = generationConfig.responseMimeType === 'application/json' || generationConfig.responseJsonSchema;
  const functionCalls = calls.map(({ id, name, input }) => ({ functionCall: { id, name, args: input } }));
  if (url.endsWith(':generateContent')) {
    const said = wantsJson ? [{ text: JSON.stringify(ROUTING_ANSWER) }] : texts.map(({ say }) => ({ text: say }));
    return answer(chunk([...said, ...functionCalls], 'STOP'));
  }
  for (const text of wantsJson ? [{ say: JSON.stringify(ROUTING_ANSWER) }] : texts) {
    // Gemini CLI expects a thought as a whole, with a subject.
    if (text.think !== undefined) send(chunk([{ text: `**Thinking** ${text.think}`, thought: true }]));
    else for await (const word of wordsOf(text)) send(chunk([{ text: word }]));
  }
  if (functionCalls.length > 0) send(chunk(functionCalls));
  return send(chunk([{ text: '' }], 'STOP'));
}
