// The text of a terminal's output.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from './support/fast-check.ts';
import { terminalText } from '../src/content/terminal-text.ts';

const ESC = '\u001b';

const CASES: Record<string, [output: string, text: string][]> = {
  'removes colours and other control sequences': [
    [`${ESC}[1;31mred${ESC}[0m and ${ESC}[38:2::1:2:3mblue${ESC}[m`, 'red and blue'],
    [`${ESC}[?25l${ESC}[2J${ESC}[Hone${ESC}[ q${ESC}[!p`, 'one'],
    ['\u009b31mred\u009bm', 'red'],
  ],
  'keeps the text of links and of the lines after them': [
    [`${ESC}]8;;http://x${ESC}\\ link ${ESC}]8;;${ESC}\\\nIMPORTANT\n\u0007done`, ' link \nIMPORTANT\ndone'],
    [`${ESC}]8;id=1;http://x\u0007link${ESC}]8;;\u0007 end`, 'link end'],
    [`\u009d8;;http://x\u009clink\u009d8;;\u009c end`, 'link end'],
  ],
  'removes titles and other control strings': [
    [`${ESC}]0;title\u0007one${ESC}Pq#0${ESC}\\two${ESC}_G${ESC}\\three${ESC}^x${ESC}\\four${ESC}Xx${ESC}\\`, 'onetwothreefour'],
    [`${ESC}]0;title\u0018one`, 'one'],
  ],
  'shows the text of a control string without an end': [
    [`${ESC}]8;;http://x link\nIMPORTANT`, '8;;http://x link\nIMPORTANT'],
    [`${ESC}]0;title${ESC}[31mred`, '0;titlered'],
    [`${ESC}Pone\ntwo`, 'one\ntwo'],
  ],
  'removes other escape sequences and incomplete ones': [
    [`${ESC}(Bone${ESC}7${ESC}=two${ESC}c${ESC}#8`, 'onetwo'],
    [`one${ESC}[31`, 'one'],
    [`one${ESC}`, 'one'],
    [`${ESC}[31${ESC}[32mgreen`, 'green'],
    [`${ESC}[31\u00e9`, 'é'],
    [`${ESC}\u00e9`, 'é'],
    ['a\u0000b\u0007c\u000ed\u007f', 'abcd'],
  ],
  'overwrites text after a carriage return': [
    ['10%\r20%\r100%', '100%'],
    ['abc\rx', 'xbc'],
    ['abc\r', 'abc'],
    ['one\r\ntwo\r\r\nthree\r\n', 'one\ntwo\nthree'],
    [`50 %\r${ESC}[Kdone\nabc${ESC}[2K\rx`, 'done\nx'],
    [`50 %${ESC}[1G${ESC}[0Kdone`, 'done'],
    [`abcdef${ESC}[4D12${ESC}[99CX`, 'ab12efX'],
    ['N\bNA\bA', 'NA'],
    ['\b\babc', 'abc'],
  ],
  'overwrites characters of several columns as a whole': [
    ['进度\rab', 'ab度'],
    ['进度\ra', 'a 度'],
    ['abcd\r进', '进cd'],
    ['a进d\r度', '度 d'],
    ['e\u0301x\rab', 'ab'],
    ['e\u0301\u0302x\b\b\u00e9', 'éx'],
    ['🎉🎉\rab', 'ab🎉'],
    ['ab\tc\rx', 'xb\tc'],
    ['a\tb\rxyz1', 'xyz1    b'],
    ['ab\r\tx', 'ab      x'],
  ],
  'leaves other text unchanged': [
    ['', ''],
    ['  one\ttwo\n\n  three  ', '  one\ttwo\n\n  three'],
    ['👨‍👩‍👧 é \u200b', '👨‍👩‍👧 é \u200b'],
    [`${ESC}[1m👨‍👩‍👧 e\u0301 𝒳${ESC}[m`, '👨‍👩‍👧 e\u0301 𝒳'],
  ],
  'separates lines at vertical tabs and form feeds': [['one\vtwo\fthree', 'one\ntwo\nthree']],
};
for (const [name, cases] of Object.entries(CASES)) {
  test(name, () => {
    for (const [output, text] of cases) assert.equal(terminalText(output), text, JSON.stringify(output));
  });
}

// With an algorithm that takes quadratic time, each of these takes hours.
const LONG = 4_000_000;
for (const part of [
  `${ESC}]`,
  `${ESC}]8;;x${ESC}\\a`,
  '\u009d',
  `${ESC}P`,
  `${ESC}[`,
  '\r',
  'a\r',
  '\b',
  'ab\b',
  '\t\r',
  `${ESC}[1`,
  `a${ESC}[2K`,
  `${ESC}[9Ca\r`,
  '进\b',
]) {
  test(`cleans a long line of ${JSON.stringify(part)}`, { timeout: 120_000 }, () => {
    const text = terminalText(part.repeat(LONG / part.length));
    assert.ok(text.length <= LONG);
  });
}

test('the text of an output has no control characters, and is not changed again', () => {
  const piece = fc.constantFrom(
    'a',
    '进',
    '🎉',
    ' ',
    '\t',
    '\n',
    '\r',
    '\b',
    '\u0007',
    ESC,
    '[',
    ']',
    '\\',
    ';',
    '8',
    'K',
    'm',
    'P',
    '\u009b',
    '\u009c',
    '\u009d',
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
      const text = terminalText(pieces.join(''));
      assert.doesNotMatch(text, /(?![\n\t])\p{Cc}/u);
      assert.equal(terminalText(text), text);
    }),
    { numRuns: 3000 },
  );
});
