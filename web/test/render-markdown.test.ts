// Rendering markdown as safe HTML.

import { document } from './support/dom.ts';

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from './support/fast-check.ts';
import { isTooLongForMarkdown } from '../src/content/markdown-length.ts';
import { renderMarkdown, markdownToText } from '../src/content/render-markdown.ts';
import { pluck } from './support/pluck.ts';

/** Returns an element with the rendered text. */
function render(text: string): HTMLElement {
  const container = document.createElement('div');
  container.innerHTML = renderMarkdown(text);
  return container;
}

test('renders markdown as HTML and as plain text', () => {
  assert.equal(
    renderMarkdown('# One\n\n**two** `three`\nfour'),
    '<h1 dir="auto">One</h1>\n<p dir="auto"><strong>two</strong> <code>three</code><br>four</p>\n',
  );
  assert.equal(markdownToText('# One\n\n**two** [three](https://example.com)', 300), 'One\ntwo three');
  assert.equal(markdownToText('word '.repeat(1000), 20), 'word word word word ');
});

/** Markdown in Chinese, Japanese and Korean, with the HTML of its paragraph. */
const EMPHASIS: [string, string][] = [
  ['**注意：**这是重点', '<strong>注意：</strong>这是重点'],
  ['这是**“重点”**的说明', '这是<strong>“重点”</strong>的说明'],
  ['**テスト。**テスト', '<strong>テスト。</strong>テスト'],
  ['これは**「重要」**です', 'これは<strong>「重要」</strong>です'],
  ['**注意(주의)**를 보세요', '<strong>注意(주의)</strong>를 보세요'],
  ['先运行**`npm test`**再提交', '先运行<strong><code>npm test</code></strong>再提交'],
  ['*重点。*然后 ***都要。***然后', '<em>重点。</em>然后 <em><strong>都要。</strong></em>然后'],
  ['~~删除。~~保留', '<del>删除。</del>保留'],
  ['1~3天，最多5~7天', '1~3天，最多5~7天'],
  ['约 ~3 天~ 或 10%~20%、30%~40%', '约 ~3 天~ 或 10%~20%、30%~40%'],
  ['2 * 3 * 4 snake_case_name 文件_名_称', '2 * 3 * 4 snake_case_name 文件_名_称'],
  ['**bold**, *it* and ~~gone~~; **a:**b', '<strong>bold</strong>, <em>it</em> and <del>gone</del>; **a:**b'],
];
test('finds emphasis in Chinese, Japanese and Korean, and no strikethrough in ranges', () => {
  for (const [text, html] of EMPHASIS) assert.equal(render(text).querySelector('p')?.innerHTML, html);
});

test('gives checkboxes an accessible name', () => {
  const checkboxes = [...render('- [x] one\n- [ ] **two**\n\n1. [x] three\n\n   more').querySelectorAll('li .checkbox')];
  assert.deepEqual(
    checkboxes.map((checkbox) => [checkbox.textContent, checkbox.getAttribute('aria-label')]),
    [
      ['☑', 'done'],
      ['☐', 'to do'],
      ['☑', 'done'],
    ],
  );
});

test('shows HTML as text, so that it cannot imitate a part of the console', () => {
  const text = [
    '<div class="toasts"><div class="toast error" role="alert" aria-label="x" id="app" name="n" style="position:fixed">Session expired</div></div>',
    '<dialog open class="dialog">dialog <a class="button primary">Approve</a></dialog>',
    '<span class="checkbox copy">near the border</span> <div popover>over</div> <form><input><button>b</button><select></select><textarea></textarea></form>',
    '<svg><circle /></svg><math><mi>x</mi></math><iframe src="/"></iframe><object></object><video></video><marquee>m</marquee>',
    '<!-- a comment --> <?php ?> <![CDATA[data]]> <!DOCTYPE html> <details><summary>s</summary>d</details> <b>b</b> <kbd>k</kbd>',
  ];
  const container = render(text.join('\n\n'));
  assert.deepEqual(
    pluck([...container.querySelectorAll('*')], 'localName'),
    text.map(() => 'p'),
  );
  assert.deepEqual(pluck([...container.children], 'textContent'), text);
});

/** Markdown in which standard Markdown, or an HTML parser, hides a part, with the lines that are shown. */
const EASILY_HIDDEN: Record<string, [string, string[]]> = {
  'an HTML element in a sentence': [
    'The <style> element is wrong here.\n\nSecond paragraph.\n\nThird paragraph.',
    ['The <style> element is wrong here.', 'Second paragraph.', 'Third paragraph.'],
  ],
  'an HTML element in a plan': [
    '1. Fix the <style> block\n2. Delete the production database\n3. Push to main',
    ['Fix the <style> block', 'Delete the production database', 'Push to main'],
  ],
  'a type parameter': ['Vec<String>, Map<a, b> and Box<i> of **`Vec<u8>`**', ['Vec<String>, Map<a, b> and Box<i> of Vec<u8>']],
  placeholders: ['ssh user@<host> -p <port>', ['ssh user@<host> -p <port>']],
  'an element that is alone in its line': ['Run:\n<pre>\nrm -rf /\n</pre>', ['Run:', '<pre>', 'rm -rf /', '</pre>']],
  'a comment': ['one <!-- two\n\nthree --> four', ['one <!-- two', 'three --> four']],
  'an element in a heading, a quotation and a cell': [
    '# <title>\n\n> <script>\n\n|<td>|\n|-|\n|<th>|',
    ['<title>', '<script>', '<td>', '<th>'],
  ],
  'a line break in a cell': ['|a|\n|-|\n|b<br>c<br/>d|\n\ne<br>f', ['a', 'b', 'c', 'd', 'e<br>f']],
  'surplus cells of a row': ['|a|b|\n|-|-|\n|c|d|e \\| f|`g`|\n|h|', ['a', 'b', 'c', 'd', 'e | f', 'g', 'h']],
  'words after a code fence': ['```sh rm -rf /\nls\n```\n\n```js\n1\n```', ['sh rm -rf /', 'ls', '1']],
  'a link definition without a link': ['[1]: Delete\n\n[used]: https://example.com\n\nSee [used].', ['[1]: Delete', 'See used.']],
  'a second definition of the same link': ['[a]: x\n[a]: Delete\n\n[a]', ['[a]: Delete', 'a']],
  'a link or image without a text': ['[](Delete) ![](Push) ![](https://example.com/i.png)', ['[](Delete) Push https://example.com/i.png']],
  'titles of links and images': [
    '[a](x "Delete") [b] ![c](https://example.com/i.png "Push") [![d](data:image/png;base64,AA "now")](x)\n\n[b]: y (it <all>)',
    ['a "Delete" b "it <all>" c "Push"  "now"'],
  ],
  'the text of an image': [
    '![a --> **b**](https://example.com/i.png) [![c](https://example.com/i.png) d](https://example.com)',
    ['a --> b c d'],
  ],
};
for (const [name, [text, lines]] of Object.entries(EASILY_HIDDEN)) {
  test(`shows all of the text: ${name}`, () => {
    assert.deepEqual(shownLines(render(text)), lines);
  });
}

/** Returns the text of each line on the page. */
function shownLines(container: HTMLElement): string[] {
  for (const button of container.querySelectorAll('.copy')) button.remove();
  for (const end of container.querySelectorAll('br, p, li, td, th, pre, h1')) end.after('\n');
  return (container.textContent ?? '').split('\n').filter((line) => line.trim() !== '');
}

test('keeps only the language as a class of code', () => {
  const classes = [...render('```rust toast\nfn\n```\n\n`x`').querySelectorAll('[class]')].map(({ className }) => className);
  assert.deepEqual(classes, ['code-block', 'language-rust', 'copy']);
});

test('links open in a new tab, show their URL and run no scripts', () => {
  const links = [
    ...render('[the docs](https://evil.example/docs "good") [click](javascript:alert(1)) [d](data:text/html,x "t")').querySelectorAll('a'),
  ];
  assert.deepEqual(
    links.map((link) => [link.getAttribute('href'), link.title, link.target, link.rel]),
    [
      ['https://evil.example/docs', 'https://evil.example/docs', '_blank', 'noopener noreferrer'],
      ...Array(2).fill([null, '', '_blank', 'noopener noreferrer']),
    ],
  );
});

test('keeps embedded images of any length', () => {
  const image = `data:image/png;base64,${'iVBORw0KGgo'.repeat(20_000)}`;
  const container = render(`before ![own](${image}) \`${image}\` ![none](data:image/placeholder,7)`);
  assert.deepEqual(pluck([...container.querySelectorAll('img')], 'src'), [image, 'data:image/placeholder,7']);
  assert.equal(container.querySelector('code')?.textContent, image);
});

// Without limits, each of these takes seconds or overflows the stack.
const COSTLY: Record<string, string> = {
  'spaces in a line': `a${' '.repeat(60_000)}b`,
  'a possible email address': `${'a.'.repeat(20_000)}@`,
  'nested quotations': '>'.repeat(2000),
  'nested quotations with spaces': '> '.repeat(20_000),
  'nested lists': Array.from({ length: 200 }, (_, at) => `${' '.repeat(2 * at)}- a`).join('\n'),
  'unclosed links': '['.repeat(60_000),
  'unclosed emphasis': '**a*'.repeat(15_000),
  'many paragraphs': `${'a.'.repeat(1000)}@\n\n`.repeat(40),
  'unclosed Chinese emphasis': '**重点。*'.repeat(10_000),
  'HTML tags': '<b>'.repeat(20_000),
};
for (const [name, text] of Object.entries(COSTLY)) {
  test(`shows a text that is costly to parse as plain text: ${name}`, { timeout: 60_000 }, () => {
    const letters = (value: string | null) => (value ?? '').replace(/[\s>-]/g, '');
    assert.equal(letters(render(text).textContent), letters(text));
  });
}

/** Returns the least CPU time of three renderings, in milliseconds. */
function cpuTime(text: string): number {
  const measure = () => {
    const before = process.cpuUsage().user;
    renderMarkdown(text);
    return (process.cpuUsage().user - before) / 1000;
  };
  return Math.min(measure(), measure(), measure());
}

// The parser searches the rest of the text after each of these fragments.
const REPEATED: [start: string, fragment: string][] = [
  ['- ', 'do -\n'],
  ['1. ', 'do\n-'],
  ['- ', 'a|-|\n'],
  ['', '|-|\na|-|\n'],
  ['', '\n|\n-|'],
  ['', '|-|'],
  ['', '1.*'],
  ['', '_www.'],
];
for (const [start, fragment] of REPEATED) {
  const text = (length: number) => start + fragment.repeat((length - start.length) / fragment.length);
  test(`the time to render ${JSON.stringify(start + fragment)} again and again grows with the length`, { tags: ['timing'] }, () => {
    const [half, whole] = [cpuTime(text(50_000)), cpuTime(text(100_000))];
    // The allowance is for collecting garbage. With quadratic growth, the whole text takes seconds.
    assert.ok(whole < 3 * half + 100, `${half} ms for a half, ${whole} ms for the whole`);
  });
}

// Without limits, each of these creates tens of thousands of elements.
const MANY: Record<string, string> = {
  tables: '|a|\n|-|\n|b|\n\n'.repeat(7000),
  'table cells': `|h${'|h'.repeat(99)}|\n|-${'|-'.repeat(99)}|\n${`|a${'|a'.repeat(99)}|\n`.repeat(490)}`,
  'code blocks': '```x\n1\n```\n'.repeat(8000),
  'list items': '- a\n'.repeat(24_000),
  emphasis: `${'**a** '.repeat(80)}\n\n`.repeat(200),
  lines: 'a\n'.repeat(45_000),
  'lines of HTML': '<div>\n'.repeat(15_000),
};
for (const [name, text] of Object.entries(MANY)) {
  test(`shows the rest of a text with too many elements as it is: ${name}`, { timeout: 60_000 }, () => {
    const intro = 'This is about them.\n\n';
    const container = render(intro + text);
    assert.ok(container.querySelectorAll('*').length <= 5010, String(container.querySelectorAll('*').length));
    assert.equal(container.querySelector('p')?.textContent, intro.trim());
    const rest = container.querySelector(':scope > .code-block:last-child code')?.textContent ?? '';
    assert.ok(rest.length > 1000 && text.endsWith(rest.trimEnd() + text.slice(text.trimEnd().length)));
  });
}

test('does not render texts that are too long', () => {
  assert.deepEqual([isTooLongForMarkdown('a'.repeat(100_000)), isTooLongForMarkdown('a'.repeat(100_001))], [false, true]);
  assert.equal(isTooLongForMarkdown(`![](data:image/png;base64,${'A'.repeat(200_000)})`), false);
  assert.equal(renderMarkdown('a'.repeat(100_001)), '');
});

/** Fragments of markdown and HTML. */
const fragment = fc.oneof(
  fc.constantFrom(
    '<',
    '>',
    '"',
    "'",
    '`',
    '```',
    '~~~',
    '*',
    '_',
    '[',
    ']',
    '(',
    ')',
    '!',
    '#',
    '|',
    '-',
    '\n',
    '\n\n',
    ' ',
    '    ',
    '&lt;',
    '&#x',
    '\\',
    '\0',
    '☑',
  ),
  fc.constantFrom(
    '<script>',
    '</script>',
    '<img src=x onerror=a()>',
    '<svg onload=a()>',
    '<a href="javascript:a()">',
    '<!--',
    '-->',
    '<style>',
    '<template>',
    '<noscript>',
    '<math>',
    '</p>',
    '<table>',
    '<td>',
    '<title>',
  ),
  fc.constantFrom('javascript:a()', 'data:text/html,a', 'https://example.com', '[a]: javascript:a()', 'data:image/placeholder,0', '- [x] '),
  fc.string(),
);
const ALLOWED = new Set([
  'align',
  'alt',
  'aria-label',
  'class',
  'dir',
  'href',
  'rel',
  'role',
  'src',
  'start',
  'tabindex',
  'target',
  'title',
  'type',
]);

test('renders no element or attribute that can do harm', () => {
  fc.assert(
    fc.property(fc.array(fragment, { maxLength: 30 }), (fragments) => {
      const container = render(fragments.join(''));
      for (const element of container.querySelectorAll('*')) {
        assert.doesNotMatch(
          element.localName,
          /^(script|style|svg|math|template|iframe|object|embed|form|input|dialog|link|meta|base|title|noscript)$/,
        );
        if (element.localName === 'button')
          assert.equal(element.outerHTML, '<button type="button" class="copy" aria-label="Copy code">Copy</button>');
        for (const { name } of element.attributes) assert.ok(ALLOWED.has(name), name);
        for (const name of ['href', 'src']) assert.doesNotMatch(element.getAttribute(name) ?? '', /^\s*javascript:|^\s*data:text/i);
      }
      assert.equal(typeof markdownToText(fragments.join(''), 300), 'string');
    }),
    { numRuns: 300 },
  );
});

const WORDS = 'one two three déjà 四';
const MARKUP = '\\ ` `` & * ** _ __ ~ ~~ [ ] ! | < > / </ ![](four) Vec<String> <T, U> <host>';
const TAGS =
  '<style> </style> <script> <b> </b> <a href="x"> <!-- --> <? <![CDATA[ <title> <textarea> <select> <noscript> <template> <svg> <plaintext> <xmp>';
const LINES = '\n# |\n\n|- |\n|> |\n---\n|\n===\n|```\n|~~~\n|    |\t|<pre>\n|<table>\n|</div>\n|\n```sh rm -rf\n|\n[lost]: Delete\n';
const TABLE = '\n\n|six|seven|\n|-|-|\n|eight|nine|ten|\n';

/**
 * Pieces of Markdown, each with its visible text. Letters, digits, `<` and `/` are visible, except in these places: the address of a
 * link that has a text, a link definition in use, the language after a code fence, the number of a list item, the box of a task, and
 * `<br>` in a table.
 */
const piece = fc
  .constantFrom(...[WORDS, MARKUP, TAGS].flatMap((pieces) => pieces.split(' ')), ...LINES.split('|'), ' ', ' ', '\n', '\n\n', TABLE)
  .map((source) => ({ source, visible: source }));
const pieceWithHiddenPart = fc.constantFrom(
  { source: '![eleven](x)', visible: 'eleven' },
  { source: '[twelve](https://example.com/hidden)', visible: 'twelve' },
  { source: '![thirteen](x "fourteen")', visible: 'thirteenfourteen' },
  { source: "[fifteen](x 'sixteen')", visible: 'fifteensixteen' },
  { source: '\n[used]: https://example.com/hidden\n', visible: '' },
  { source: '\n```js\n', visible: '' },
  { source: '\n1. ', visible: '' },
  { source: '\n- [x] ', visible: '' },
  { source: '<br>', visible: '' },
  // After `[five`, it is the address of a link with a text.
  { source: '[](five)', visible: '' },
);

/** A code fence before a word that could be a language, other than in the pieces. */
const OTHER_LANGUAGE = /(?:`{3,}(?!`)|~{3,}(?!~))(?!\n|js\n|sh rm)/;

/** Returns the visible characters of a text that are not markup of Markdown. */
const lettersAndTags = (text: string) => text.replace(/[^\p{L}\p{N}</]/gu, '');

test('each visible character of the source is on the page, in order', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof({ weight: 6, arbitrary: piece }, pieceWithHiddenPart), { maxLength: 25 }), (pieces) => {
      const text = pieces.map(({ source }) => source).join('');
      // Two definitions would be one that is used, if the first one is text.
      fc.pre(!OTHER_LANGUAGE.test(text) && text.split('[lost]').length <= 2);
      const container = render(text);
      for (const button of container.querySelectorAll('.copy')) button.remove();
      const page = lettersAndTags(container.textContent ?? '');
      let position = 0;
      for (const character of lettersAndTags(pieces.map(({ visible }) => visible).join(''))) {
        position = page.indexOf(character, position) + 1;
        assert.notEqual(position, 0, `${character} is missing in: ${page}`);
      }
    }),
    { numRuns: 2000 },
  );
});
