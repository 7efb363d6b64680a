// Agents may send any JSON: property tests with random records, and with known records whose fields have random values.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from './support/fast-check.ts';
import type { CompletedRequest, Message } from '../src/api/types.ts';
import { highlight } from '../src/content/highlight.ts';
import type { MessagePart } from '../src/content/message-part.ts';
import { parseMessage } from '../src/content/parse-message.ts';
import { summarizeEdits } from '../src/content/edit-summary.ts';
import { summaryPath, toolTitle } from '../src/content/tool-summary.ts';
import { answeredQuestions, describeDecision, summarizeRequest } from '../src/content/permissions.ts';
import { buildTimeline } from '../src/content/timeline.ts';

const anything = fc.jsonValue({ maxDepth: 4 });
const orAnything = <T>(arbitrary: fc.Arbitrary<T>) => fc.oneof({ weight: 4, arbitrary }, { weight: 1, arbitrary: anything });
const oneOf = (...words: string[]) => orAnything(fc.constantFrom(...words));
const partial = <T extends object>(fields: { [K in keyof T]: fc.Arbitrary<T[K]> }) => fc.record(fields, { requiredKeys: [] });

const block = partial({
  type: oneOf('text', 'thinking', 'tool_use', 'tool_result', 'image'),
  text: orAnything(fc.string()),
  thinking: orAnything(fc.string()),
  id: oneOf('a', 'b', '__proto__'),
  tool_use_id: oneOf('a', 'b', '__proto__'),
  name: oneOf('Bash', 'TodoWrite', 'constructor'),
  input: anything,
  content: orAnything(
    fc.array(partial({ type: oneOf('text', 'image'), text: orAnything(fc.string()), data: oneOf('AAAA'), mimeType: oneOf('image/png') }), {
      maxLength: 3,
    }),
  ),
  source: orAnything(partial({ data: oneOf('AAAA'), media_type: oneOf('image/png', 'text/html') })),
  is_error: anything,
});
const record = partial({
  type: oneOf('assistant', 'summary', 'message', 'reasoning', 'tool-call', 'tool-call-result', 'plan', 'ready'),
  message: orAnything(partial({ role: oneOf('user', 'assistant'), content: orAnything(fc.array(block, { maxLength: 4 })) })),
  summary: anything,
  callId: oneOf('a', 'b'),
  name: oneOf('Bash'),
  output: anything,
  entries: orAnything(
    fc.array(orAnything(partial({ content: orAnything(fc.string()), status: oneOf('completed'), priority: oneOf('high'), id: anything })), {
      maxLength: 3,
    }),
  ),
});
const attachment = partial({ id: anything, filename: orAnything(fc.string()), size: orAnything(fc.integer()), path: anything });
const body = partial({
  type: oneOf('text', 'output', 'event', 'beta'),
  text: orAnything(fc.string()),
  data: orAnything(record),
  attachments: orAnything(fc.array(orAnything(attachment), { maxLength: 3 })),
});
const content = orAnything(
  partial({
    role: oneOf('user', 'agent', 'assistant'),
    content: orAnything(fc.oneof(body, fc.array(block, { maxLength: 4 }))),
    meta: orAnything(partial({ sentFrom: oneOf('web', 'cli') })),
  }),
);

/** Asserts the properties of a part on which the views rely. */
function checkPart(part: MessagePart): void {
  const assertStrings = (...values: unknown[]) => values.forEach((value) => assert.equal(typeof value, 'string', JSON.stringify(part)));
  switch (part.kind) {
    case 'user':
      assertStrings(part.text);
      for (const { id, filename, size } of part.attachments) {
        assertStrings(id, filename);
        assert.equal(typeof size, 'number');
      }
      break;
    case 'text':
    case 'thinking':
      assertStrings(part.text);
      break;
    case 'tool':
      assertStrings(part.id, part.name);
      break;
    case 'result':
      assertStrings(part.id, part.text, ...part.images);
      for (const url of part.images) assert.match(url, /^data:image\//);
      break;
    case 'image':
      assert.match(part.url, /^data:image\//);
      break;
    case 'plan':
      for (const { id, content: text, status, priority } of part.todos) assertStrings(id, text, status, priority);
      break;
    case 'event':
      assertStrings(part.name, part.text ?? '');
      break;
    case 'unknown':
      assertStrings(JSON.stringify(part.json));
  }
}

test('any message parses into valid parts', () => {
  fc.assert(
    fc.property(content, (message) => parseMessage(message).forEach(checkPart)),
    { numRuns: 2000 },
  );
});

const request = orAnything(
  partial({
    tool: orAnything(fc.string()),
    arguments: anything,
    status: oneOf('approved', 'denied'),
    createdAt: orAnything(fc.integer()),
    completedAt: orAnything(fc.integer()),
    reason: orAnything(fc.string()),
    allowTools: orAnything(fc.array(orAnything(fc.string()))),
    answers: orAnything(
      fc.dictionary(
        fc.string(),
        orAnything(fc.oneof(fc.array(orAnything(fc.string())), partial({ answers: orAnything(fc.array(fc.string())) }))),
      ),
    ),
  }),
);

test('any session gives a timeline with unique keys and valid texts', () => {
  fc.assert(
    fc.property(
      fc.array(content, { maxLength: 8 }),
      fc.dictionary(fc.constantFrom('a', 'b', 'c', '__proto__'), request),
      fc.boolean(),
      fc.boolean(),
      (contents, completed, active, thinking) => {
        const messages = contents.map(
          (item, index): Message => ({ id: `m${index}`, seq: index + 1, localId: null, content: item, createdAt: index }),
        );
        const items = buildTimeline(
          { messages, outgoing: [], hasOlder: false, requests: completed, completed: completed as Record<string, CompletedRequest> },
          { active, thinking },
        );
        assert.equal(new Set(items.map(({ key }) => key)).size, items.length);
        for (const item of items) {
          if (item.kind === 'tool') {
            const texts = [
              toolTitle(item.name, item.input),
              summaryPath(item.input) ?? '',
              ...(summarizeEdits(item.input)?.lines ?? []).map(({ text }) => text),
            ];
            assert.ok(
              texts.every((text) => typeof text === 'string'),
              JSON.stringify(item),
            );
          }
          if (item.kind !== 'permission') continue;
          const { allowTools = [], reason = '' } = item.request;
          const summary = summarizeRequest(item.request);
          const texts = [
            describeDecision(item.request).label,
            summary.text,
            summary.path ?? '',
            reason,
            ...allowTools,
            ...answeredQuestions(item.request).flatMap(({ answers }) => answers),
          ];
          assert.ok(texts.every((text) => typeof text === 'string') && typeof item.createdAt === 'number', JSON.stringify(item));
        }
      },
    ),
    { numRuns: 1000 },
  );
});

test('any language name gives highlighted code or none', async () => {
  const words = fc.oneof(fc.constantFrom('constructor', '__proto__', 'toString', 'rs', 'xml'), fc.string());
  await fc.assert(
    fc.asyncProperty(words, fc.string(), async (word, code) => {
      const highlighted = await highlight(code, word);
      assert.ok(highlighted === null || !/<(?!\/?span)/.test(highlighted), String(highlighted));
    }),
  );
});

test('code whose words are so long that its highlighting would take seconds is not highlighted', async () => {
  for (const code of ['x'.repeat(10_000), `${'x'.repeat(4_000)} `.repeat(10)]) assert.equal(await highlight(code, 'rust'), null);
  for (const code of ['x'.repeat(5_000), 'let x = 1;\n'.repeat(10_000)]) assert.notEqual(await highlight(code, 'rust'), null);
});
