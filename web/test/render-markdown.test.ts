// Rendering markdown as safe HTML.

import { document } from './support/dom.ts';

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from './support/fast-check.ts';
import { isTooLongForMarkdown } from '../src/content/markdown-length.ts';
import { renderMarkdown, markdownToText } from '../src/content/render-markdown.ts';

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

test('removes everything that could imitate a part of the console', () => {
  const text = [
    '<div class="toasts"><div class="toast error" role="alert" aria-label="x" id="app" name="n" style="position:fixed">Session expired</div></div>',
    '<dialog open class="dialog">dialog <a class="button primary" href="https://evil.example/">Approve</a></dialog>',
    '<span class="checkbox copy">near the border</span> <div popover>over</div> <form><input><button>b</button><select></select><textarea></textarea></form>',
    '<svg><circle /></svg><math><mi>x</mi></math><iframe src="/"></iframe><object></object><video></video><marquee>m</marquee>',
  ].join('\n\n');
  const container = render(text);
  const harmful =
    'dialog, form, input, button, select, textarea, svg, math, iframe, object, video, marquee, [class], [role], [aria-label], [id], [name], [style], [popover]';
  assert.deepEqual(
    [...container.querySelectorAll(harmful)].map(({ outerHTML }) => outerHTML),
    [],
  );
  assert.match(container.textContent ?? '', /Session expired.*dialog Approve.*near the border/s);
});

test('keeps only the language class of code', () => {
  const classes = [
    ...render('```rust\nfn\n```\n\n<code class="language-js toast">x</code> <b class="language-js">y</b>').querySelectorAll('[class]'),
  ].map(({ className }) => className);
  assert.deepEqual(classes, ['code-block', 'language-rust', 'copy', 'language-js']);
});

test('links open in a new tab, show their URL and run no scripts', () => {
  const links = [
    ...render(
      '[the docs](https://evil.example/docs "good") [click](javascript:alert(1)) <a href="data:text/html,x" title="t">d</a>',
    ).querySelectorAll('a'),
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
  assert.deepEqual(
    [...container.querySelectorAll('img')].map(({ src }) => src),
    [image, 'data:image/placeholder,7'],
  );
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
};
for (const [name, text] of Object.entries(COSTLY)) {
  test(`shows a text that is costly to parse as plain text: ${name}`, { timeout: 60_000 }, () => {
    const letters = (value: string | null) => (value ?? '').replace(/[\s>-]/g, '');
    assert.equal(letters(render(text).textContent), letters(text));
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

test('shows HTML with too many tags as text', { timeout: 60_000 }, () => {
  const container = render(`${'<b>'.repeat(400)}one\n\n${'<div>\n'.repeat(10_000)}`);
  assert.ok(container.querySelectorAll('b').length >= 400);
  assert.ok(container.querySelectorAll('div').length < 100);
  assert.match(container.textContent ?? '', /one.*<div>/s);
});

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
  'colspan',
  'dir',
  'href',
  'lang',
  'open',
  'rel',
  'role',
  'rowspan',
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
