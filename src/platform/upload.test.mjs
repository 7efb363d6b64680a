/** How an upload's body is taken apart, beside what the standard library says of the same text. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Upload, base64Size, contents, unescapeBase64 } from './upload.js';

const encoder = new TextEncoder();
const found = (text, maxRest = 1_000) => {
  const bytes = encoder.encode(text);
  return contents(bytes, maxRest).map(([start, end]) => new TextDecoder().decode(bytes.subarray(start, end)));
};

describe('the content of a body', () => {
  const bodies = {
    'alone': '{"content":"YQ=="}',
    'between others': ' { "filename" : "a" , "content" : "YQ==" , "mimeType" : "b" } ',
    'empty': '{"content":""}',
    'under an escaped key': '{"\\u0063ontent":"YQ=="}',
    'behind nested ones of the same name': '{"a":{"content":"no","b":[{"content":"no"}]},"c":["content","x"],"content":"YQ=="}',
    'behind strings full of marks': '{"a":"{\\"content\\":\\"no\\"}","b\\\\":"\\\\","c":"]},","content":"YQ=="}',
    'behind numbers and words': '{"a":-1.5e3,"b":true,"c":null,"d":[],"e":{},"content":"YQ=="}',
    'beside letters of any length': '{"ä😀":"ß😀","content":"YQ==","ö":"😀"}',
  };
  for (const [where, text] of Object.entries(bodies)) {
    test(`is found ${where}`, () => {
      assert.deepEqual(found(text), [JSON.parse(text).content]);
    });
  }

  for (const text of ['', '{}', '[]', '"content"', '{"content":5}', '{"content":null,"a":"content"}', '{"a":{"content":"x"}}', '{"content"', '{"content":"x', '{"content":"\\"}', '{"a" "content":"x"}', '[{"content":"x"}]']) {
    test(`is not found in ${text || 'nothing'}`, () => {
      assert.deepEqual(found(text), []);
    });
  }

  test('is found twice at most: two are one too many already', () => {
    assert.deepEqual(found('{"content":"a","content":"b"}'), ['a', 'b']);
    assert.deepEqual(found(`{${'"content":"a",'.repeat(10_000)}"x":0}`, 1_000_000), ['a', 'a']);
  });

  test('is not looked for behind more than may stand beside it, however long it is itself', () => {
    assert.deepEqual(found(`{${'"\\x":0,'.repeat(1_000)}"content":"a"}`), []);
    assert.deepEqual(found(`{"content":"${'a'.repeat(5_000)}","x":0,"y":0}`), ['a'.repeat(5_000)]);
  });

  test('ends at the first quote that is not escaped, however many backslashes stand before it', () => {
    for (let slashes = 0; slashes < 6; slashes++) {
      const text = `{"content":"x${'\\'.repeat(slashes)}","z":"y"}`;
      let expected = [];
      try {
        JSON.parse(text);
        expected = [`x${'\\'.repeat(slashes)}`];
      } catch {
        // An odd number escapes the quote: the string goes on to the next one.
        expected = [`x${'\\'.repeat(slashes)}",`];
      }
      assert.deepEqual(found(text), expected, text);
    }
  });
});

describe('escapes in base64', () => {
  const unescaped = (text) => {
    const bytes = encoder.encode(text);
    return new TextDecoder().decode(bytes.subarray(0, unescapeBase64(bytes, 0, bytes.length)));
  };

  for (const text of ['YQ==', '', 'a\\/b\\/', '\\u002b\\u002B\\u003d', 'ab\\u002fcd\\/ef']) {
    test(`of ${JSON.stringify(text)} are taken out as JSON means them`, () => {
      assert.equal(unescaped(text), JSON.parse(`"${text}"`));
    });
  }

  for (const text of ['a\\nb=', 'ab\\u00e9', 'abc\\u0141', 'ab\\\\c', 'abc\\"', 'abc\\ud83d\\ude00', 'abc\\u', 'abc\\uzz41', 'abc\\u+041', 'abc\\u 041', 'abc\\u41']) {
    test(`of ${JSON.stringify(text)} never become base64`, () => {
      const bytes = encoder.encode(text);
      assert.equal(base64Size(bytes, 0, unescapeBase64(bytes, 0, bytes.length)), -1);
    });
  }
});

describe('the size of base64', () => {
  test('is that of the file, for files of every length', () => {
    for (let length = 0; length < 40; length++) {
      const bytes = encoder.encode(Buffer.alloc(length, 251).toString('base64'));
      assert.equal(base64Size(bytes, 0, bytes.length), length);
    }
  });

  for (const text of ['a', 'ab', 'abc', 'ab=', 'abc==', 'a===', '====', '=abc', 'ab=c', 'ab c', 'ab-_', 'abc\n', 'ab==ab==', 'äb==']) {
    test(`is none for ${JSON.stringify(text)}`, () => {
      const bytes = encoder.encode(text);
      assert.equal(base64Size(bytes, 0, bytes.length), -1);
    });
  }
});

/** A body as the runtime has it, whose bytes come when the test says so. */
class Body {
  #sent = 0;
  #ended = false;
  #wake = () => {};

  send(bytes) {
    this.#sent += bytes;
    this.#wake();
  }

  end() {
    this.#ended = true;
    this.#wake();
  }

  getReader() {
    return {
      readAtLeast: async (least, view) => {
        while (this.#sent < least && !this.#ended) {
          await new Promise((resolve) => {
            this.#wake = resolve;
          });
        }
        const length = Math.min(this.#sent, view.byteLength);
        this.#sent -= length;
        const { byteOffset } = view;
        return { value: new Uint8Array(view.buffer.transfer(), byteOffset, length).fill(0x20), done: length === 0 };
      },
      cancel: async () => this.end(),
    };
  }
}

describe('a client that sends its body slowly', () => {
  const STALL_MS = 15_000;
  const PIECE = 64 * 1024;

  /** An upload that is being read, and what became of it so far. */
  function reading(t) {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const body = new Body();
    const upload = new Upload({ body, headers: new Headers() });
    const read = { outcome: undefined };
    upload.read(50_000_000, PIECE, PIECE, STALL_MS).then(([fault]) => {
      read.outcome = fault;
    });
    const pass = async (ms) => {
      // What came before is read before the time passes, and what follows from it afterwards.
      await new Promise(setImmediate);
      t.mock.timers.tick(ms);
      await new Promise(setImmediate);
    };
    return { body, read, pass };
  }

  test('is given up when it stands still', async (t) => {
    const { body, read, pass } = reading(t);
    body.send(PIECE);
    await pass(STALL_MS - 1);
    assert.equal(read.outcome, undefined);
    await pass(1);
    assert.equal(read.outcome, 'stalled');
  });

  test('is given up when hardly anything comes', async (t) => {
    const { body, read, pass } = reading(t);
    for (let seconds = 0; seconds < 15; seconds += 1) {
      assert.equal(read.outcome, undefined);
      body.send(1);
      await pass(1_000);
    }
    assert.equal(read.outcome, 'stalled');
  });

  test('is waited for as long as it goes on', async (t) => {
    const { body, read, pass } = reading(t);
    for (let pieces = 0; pieces < 100; pieces += 1) {
      body.send(PIECE);
      await pass(STALL_MS - 1);
    }
    assert.equal(read.outcome, undefined);
    body.end();
    await pass(0);
    // It was taken whole: what is wrong with it is only that it has no content.
    assert.equal(read.outcome, 'rest-too-large');
  });
});
