/** Tests of the parser of upload bodies against the standard library. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Upload, base64Size, findContent, normalizeBase64 } from './upload.js';

const encoder = new TextEncoder();
const find = (text, maxFields = 1_000) => {
  const bytes = encoder.encode(text);
  return findContent(bytes, maxFields).map(([start, end]) => new TextDecoder().decode(bytes.subarray(start, end)));
};

describe('findContent', () => {
  const bodies = {
    'as the only field': '{"content":"YQ=="}',
    'between other fields': ' { "filename" : "a" , "content" : "YQ==" , "mimeType" : "b" } ',
    'with an empty value': '{"content":""}',
    'under an escaped key': '{"\\u0063ontent":"YQ=="}',
    'after nested fields of the same name': '{"a":{"content":"no","b":[{"content":"no"}]},"c":["content","x"],"content":"YQ=="}',
    'after strings with structural characters': '{"a":"{\\"content\\":\\"no\\"}","b\\\\":"\\\\","c":"]},","content":"YQ=="}',
    'after other JSON types': '{"a":-1.5e3,"b":true,"c":null,"d":[],"e":{},"content":"YQ=="}',
    'next to characters of several bytes': '{"ä😀":"ß😀","content":"YQ==","ö":"😀"}',
  };
  for (const [where, text] of Object.entries(bodies)) {
    test(`finds the field ${where}`, () => {
      assert.deepEqual(find(text), [JSON.parse(text).content]);
    });
  }

  for (const text of ['', '{}', '[]', '"content"', '{"content":5}', '{"content":null,"a":"content"}', '{"a":{"content":"x"}}', '{"content"', '{"content":"x', '{"content":"\\"}', '{"a" "content":"x"}', '[{"content":"x"}]']) {
    test(`finds nothing in ${text || 'an empty body'}`, () => {
      assert.deepEqual(find(text), []);
    });
  }

  test('stops at the second value', () => {
    assert.deepEqual(find('{"content":"a","content":"b"}'), ['a', 'b']);
    assert.deepEqual(find(`{${'"content":"a",'.repeat(10_000)}"x":0}`, 1_000_000), ['a', 'a']);
  });

  test('stops when the other fields exceed their limit', () => {
    assert.deepEqual(find(`{${'"\\x":0,'.repeat(1_000)}"content":"a"}`), []);
    assert.deepEqual(find(`{"content":"${'a'.repeat(5_000)}","x":0,"y":0}`), ['a'.repeat(5_000)]);
  });

  test('recognizes an escaped quote after any number of backslashes', () => {
    for (let slashes = 0; slashes < 6; slashes++) {
      const text = `{"content":"x${'\\'.repeat(slashes)}","z":"y"}`;
      let expected = [];
      try {
        JSON.parse(text);
        expected = [`x${'\\'.repeat(slashes)}`];
      } catch {
        // An odd number of backslashes escapes the quote.
        expected = [`x${'\\'.repeat(slashes)}",`];
      }
      assert.deepEqual(find(text), expected, text);
    }
  });
});

describe('normalizeBase64', () => {
  /** The string with free space behind it. */
  const space = (text) => encoder.encode(`x${text}"}`);
  const normalized = (text) => {
    const bytes = space(text);
    return new TextDecoder().decode(bytes.subarray(1, normalizeBase64(bytes, 1, bytes.length - 2)));
  };

  const forms = {
    'YQ==': 'YQ==',
    '': '',
    'a\\/b\\/': 'a/b/',
    'ab\\u002fcd\\/ef\\u002B\\u003d': 'ab/cd/ef+=',
    YQ: 'YQ==',
    YWI: 'YWI=',
    '-_-_': '+/+/',
    '_-8': '/+8=',
    'YW\\r\\nI=\\n': 'YWI=',
    'YW\\u000d\\u000AI': 'YWI=',
  };
  for (const [text, expected] of Object.entries(forms)) {
    test(`converts ${JSON.stringify(text)}`, () => {
      assert.equal(normalized(text), expected);
    });
  }

  for (const text of ['a', 'YQ=', 'Y=Q', 'a b=', 'a\\tb=', 'ab\\u00e9', 'abc\\u0141', 'ab\\\\c', 'abc\\"', 'abc\\ud83d\\ude00', 'abc\\u', 'abc\\uzz41', 'abc\\u+041', 'abc\\u 041', 'abc\\u41']) {
    test(`leaves ${JSON.stringify(text)} invalid`, () => {
      const bytes = space(text);
      assert.equal(base64Size(bytes, 1, normalizeBase64(bytes, 1, bytes.length - 2)), -1);
    });
  }
});

describe('a content with millions of escapes', () => {
  const BYTES = 12_000_000;
  const milliseconds = (run) => {
    const start = performance.now();
    run();
    return performance.now() - start;
  };

  for (const escape of ['\\u0041', '\\u000a', '\\uzzzz', '\\/', '\\n', '-_', '\\"', '\\\\']) {
    test(`is read in one pass: ${escape}`, () => {
      const text = escape.repeat(BYTES / escape.length);
      const bytes = encoder.encode(`{"content":"${text}"}`);
      const plain = encoder.encode('A'.repeat(BYTES));
      // The fastest of three: other processes may interrupt one.
      const fastest = (run) => Math.min(...[1, 2, 3].map(() => milliseconds(run)));
      const onePass = fastest(() => base64Size(plain, 0, BYTES));
      let found;
      const elapsed = fastest(() => {
        const copy = bytes.slice();
        found = findContent(copy, 1_000);
        normalizeBase64(copy, ...found[0]);
      });
      assert.deepEqual(found, [['{"content":"'.length, bytes.length - 2]]);
      assert.ok(elapsed < 12 * onePass, `${elapsed} ms, but ${onePass} ms for reading each byte once`);
    });
  }
});

describe('base64Size', () => {
  test('returns the decoded size', () => {
    for (let length = 0; length < 40; length++) {
      const bytes = encoder.encode(Buffer.alloc(length, 251).toString('base64'));
      assert.equal(base64Size(bytes, 0, bytes.length), length);
    }
  });

  for (const text of ['a', 'ab', 'abc', 'ab=', 'abc==', 'a===', '====', '=abc', 'ab=c', 'ab c', 'ab-_', 'abc\n', 'ab==ab==', 'äb==']) {
    test(`rejects ${JSON.stringify(text)}`, () => {
      const bytes = encoder.encode(text);
      assert.equal(base64Size(bytes, 0, bytes.length), -1);
    });
  }
});

/** A request body whose bytes arrive when the test sends them. */
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
      readAtLeast: async (minBytes, view) => {
        while (this.#sent < minBytes && !this.#ended) {
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
      releaseLock: () => {},
    };
  }
}

describe('a slow upload', () => {
  const STALL_MS = 15_000;
  const MIN_BYTES = 64 * 1024;

  /** Starts reading an upload. */
  function startUpload(t) {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const body = new Body();
    const upload = new Upload({ body, headers: new Headers() });
    const read = { outcome: undefined };
    upload.read(75_000_000, 50_000_000, MIN_BYTES, MIN_BYTES, STALL_MS).then(([fault]) => {
      read.outcome = fault;
    });
    const advance = async (ms) => {
      // Pending reads run before and after the time advances.
      await new Promise(setImmediate);
      t.mock.timers.tick(ms);
      await new Promise(setImmediate);
    };
    return { body, read, advance };
  }

  test('fails when no bytes arrive', async (t) => {
    const { body, read, advance } = startUpload(t);
    body.send(MIN_BYTES);
    await advance(STALL_MS - 1);
    assert.equal(read.outcome, undefined);
    await advance(1);
    assert.equal(read.outcome, 'stalled');
  });

  test('fails when too few bytes arrive', async (t) => {
    const { body, read, advance } = startUpload(t);
    for (let seconds = 0; seconds < 15; seconds += 1) {
      assert.equal(read.outcome, undefined);
      body.send(1);
      await advance(1_000);
    }
    assert.equal(read.outcome, 'stalled');
  });

  test('continues while enough bytes arrive', async (t) => {
    const { body, read, advance } = startUpload(t);
    for (let chunks = 0; chunks < 100; chunks += 1) {
      body.send(MIN_BYTES);
      await advance(STALL_MS - 1);
    }
    assert.equal(read.outcome, undefined);
    body.end();
    await advance(0);
    // The body was read completely; it has no content.
    assert.equal(read.outcome, 'fields-too-large');
  });
});
