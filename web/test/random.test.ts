// What agents send may be anything: random records, and those that agents send with something else in their places.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { CompletedRequest, Message } from '../src/api/types.ts';
import { highlight } from '../src/content/highlight.ts';
import { parse, type Part } from '../src/content/parse.ts';
import { answersOf, askedOf, decisionOf } from '../src/content/permissions.ts';
import { timeline } from '../src/content/timeline.ts';

const anything = fc.jsonValue({ maxDepth: 4 });
const or = <T>(one: fc.Arbitrary<T>) => fc.oneof({ weight: 4, arbitrary: one }, { weight: 1, arbitrary: anything });
const word = (...words: string[]) => or(fc.constantFrom(...words));
const some = <T extends object>(fields: { [K in keyof T]: fc.Arbitrary<T[K]> }) => fc.record(fields, { requiredKeys: [] });

const block = some({
  type: word('text', 'thinking', 'tool_use', 'tool_result', 'image'),
  text: or(fc.string()),
  thinking: or(fc.string()),
  id: word('a', 'b', '__proto__'),
  tool_use_id: word('a', 'b', '__proto__'),
  name: word('Bash', 'TodoWrite', 'constructor'),
  input: anything,
  content: or(fc.array(some({ type: word('text', 'image'), text: or(fc.string()), data: word('AAAA'), mimeType: word('image/png') }), { maxLength: 3 })),
  source: or(some({ data: word('AAAA'), media_type: word('image/png', 'text/html') })),
  is_error: anything,
});
const record = some({
  type: word('assistant', 'summary', 'message', 'reasoning', 'tool-call', 'tool-call-result', 'plan', 'ready'),
  message: or(some({ role: word('user', 'assistant'), content: or(fc.array(block, { maxLength: 4 })) })),
  summary: anything,
  callId: word('a', 'b'),
  name: word('Bash'),
  output: anything,
  entries: or(fc.array(or(some({ content: or(fc.string()), status: word('completed'), priority: word('high'), id: anything })), { maxLength: 3 })),
});
const attachment = some({ id: anything, filename: or(fc.string()), size: or(fc.integer()), path: anything });
const body = some({ type: word('text', 'output', 'event', 'beta'), text: or(fc.string()), data: or(record), attachments: or(fc.array(or(attachment), { maxLength: 3 })) });
const content = or(some({ role: word('user', 'agent', 'assistant'), content: or(fc.oneof(body, fc.array(block, { maxLength: 4 }))), meta: or(some({ sentFrom: word('web', 'cli') })) }));

/** What the views take for granted of a part. */
function check(part: Part): void {
  const strings = (...all: unknown[]) => all.forEach((one) => assert.equal(typeof one, 'string', JSON.stringify(part)));
  switch (part.kind) {
    case 'user':
      strings(part.text);
      for (const { id, filename, size } of part.attachments) {
        strings(id, filename);
        assert.equal(typeof size, 'number');
      }
      break;
    case 'text':
    case 'thinking':
      strings(part.text);
      break;
    case 'tool':
      strings(part.id, part.name);
      break;
    case 'result':
      strings(part.id, part.text, ...part.images);
      for (const url of part.images) assert.match(url, /^data:image\//);
      break;
    case 'image':
      assert.match(part.url, /^data:image\//);
      break;
    case 'plan':
      for (const { id, content: words, status, priority } of part.todos) strings(id, words, status, priority);
      break;
    case 'event':
      strings(part.name, part.text ?? '');
      break;
    case 'unknown':
      strings(JSON.stringify(part.json));
  }
}

test('whatever a message holds, it comes apart into what the views can show', () => {
  fc.assert(fc.property(content, (one) => parse(one).forEach(check)), { numRuns: 2000 });
});

const request = or(
  some({
    tool: or(fc.string()),
    arguments: anything,
    status: word('approved', 'denied'),
    createdAt: or(fc.integer()),
    completedAt: or(fc.integer()),
    reason: or(fc.string()),
    allowTools: or(fc.array(or(fc.string()))),
    answers: or(fc.dictionary(fc.string(), or(fc.oneof(fc.array(or(fc.string())), some({ answers: or(fc.array(fc.string())) }))))),
  }),
);

test('whatever a session holds, its conversation is a list of items, each with a key of its own', () => {
  fc.assert(
    fc.property(
      fc.array(content, { maxLength: 8 }),
      fc.dictionary(fc.constantFrom('a', 'b', 'c', '__proto__'), request),
      fc.boolean(),
      fc.boolean(),
      (contents, completed, active, thinking) => {
        const messages = contents.map((one, at): Message => ({ id: `m${at}`, seq: at + 1, localId: null, content: one, createdAt: at }));
        const items = timeline({ messages, outgoing: [], hasOlder: false, completed: completed as Record<string, CompletedRequest> }, { active, thinking });
        assert.equal(new Set(items.map(({ key }) => key)).size, items.length);
        for (const item of items) {
          if (item.kind !== 'permission') continue;
          const { allowTools = [], reason = '' } = item.request;
          const said = [decisionOf(item.request).words, askedOf(item.request), reason, ...allowTools, ...answersOf(item.request).flatMap(({ answers }) => answers)];
          assert.ok(said.every((one) => typeof one === 'string') && typeof item.createdAt === 'number', JSON.stringify(item));
        }
      },
    ),
    { numRuns: 1000 },
  );
});

test('whatever word stands for a language, code is coloured or left as it is', async () => {
  const words = fc.oneof(fc.constantFrom('constructor', '__proto__', 'toString', 'rs', 'xml'), fc.string());
  await fc.assert(
    fc.asyncProperty(words, fc.string(), async (word, code) => {
      const coloured = await highlight(code, word);
      assert.ok(coloured === null || !/<(?!\/?span)/.test(coloured), String(coloured));
    }),
  );
});
