// Markdown as HTML that is safe to show.

import { document } from './support/dom.ts';

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { html, isTooLong, wordsOf } from '../src/content/markup.ts';

/** The page's part that a text becomes. */
function shown(text: string): HTMLElement {
  const place = document.createElement('div');
  place.innerHTML = html(text);
  return place;
}

test('a text is shown as markdown, and its words are said', () => {
  assert.equal(html('# One\n\n**two** `three`\nfour'), '<h1 dir="auto">One</h1>\n<p dir="auto"><strong>two</strong> <code>three</code><br>four</p>\n');
  assert.equal(wordsOf('# One\n\n**two** [three](https://example.com)', 300), 'One\ntwo three');
  assert.equal(wordsOf('word '.repeat(1000), 20), 'word word word word ');
});

test('boxes that are ticked, or not, have a name', () => {
  const boxes = [...shown('- [x] one\n- [ ] **two**\n\n1. [x] three\n\n   more').querySelectorAll('li .task')];
  assert.deepEqual(boxes.map((box) => [box.textContent, box.getAttribute('aria-label')]), [['☑', 'done'], ['☐', 'to do'], ['☑', 'done']]);
});

test('an agent can draw nothing that looks like a part of the console', () => {
  const text = [
    '<div class="toasts"><div class="toast error" role="alert" aria-label="x" id="app" name="n" style="position:fixed">Session expired</div></div>',
    '<dialog open class="dialog">dialog <a class="button primary" href="https://evil.example/">Approve</a></dialog>',
    '<span class="task copy">near the border</span> <div popover>over</div> <form><input><button>b</button><select></select><textarea></textarea></form>',
    '<svg><circle /></svg><math><mi>x</mi></math><iframe src="/"></iframe><object></object><video></video><marquee>m</marquee>',
  ].join('\n\n');
  const place = shown(text);
  const harmful = 'dialog, form, input, button, select, textarea, svg, math, iframe, object, video, marquee, [class], [role], [aria-label], [id], [name], [style], [popover]';
  assert.deepEqual([...place.querySelectorAll(harmful)].map(({ outerHTML }) => outerHTML), []);
  assert.match(place.textContent ?? '', /Session expired.*dialog Approve.*near the border/s);
});

test('code keeps the class of its language, and nothing else does', () => {
  const classes = [...shown('```rust\nfn\n```\n\n<code class="language-js toast">x</code> <b class="language-js">y</b>').querySelectorAll('[class]')].map(({ className }) => className);
  assert.deepEqual(classes, ['code-place', 'language-rust', 'copy', 'language-js']);
});

test('a link opens elsewhere, says where it leads, and runs nothing', () => {
  const links = [...shown('[the docs](https://evil.example/docs "good") [click](javascript:alert(1)) <a href="data:text/html,x" title="t">d</a>').querySelectorAll('a')];
  assert.deepEqual(
    links.map((link) => [link.getAttribute('href'), link.title, link.target, link.rel]),
    [['https://evil.example/docs', 'https://evil.example/docs', '_blank', 'noopener noreferrer'], ...Array(2).fill([null, '', '_blank', 'noopener noreferrer'])],
  );
});

test('a picture that is in the text is kept whole, however long it is', () => {
  const picture = `data:image/png;base64,${'iVBORw0KGgo'.repeat(20_000)}`;
  const place = shown(`before ![own](${picture}) \`${picture}\` ![none](data:image/held,7)`);
  assert.deepEqual([...place.querySelectorAll('img')].map(({ src }) => src), [picture, 'data:image/held,7']);
  assert.equal(place.querySelector('code')?.textContent, picture);
});

// Each of these took seconds, or all of the stack. What is left of markdown's rules for them costs no time to speak of.
const COSTLY: Record<string, string> = {
  'blanks in a line': `a${' '.repeat(60_000)}b`,
  'what may be an address': `${'a.'.repeat(20_000)}@`,
  'quotations in quotations': '>'.repeat(2000),
  'quotations in quotations, apart': '> '.repeat(20_000),
  'lists in lists': Array.from({ length: 200 }, (_, at) => `${' '.repeat(2 * at)}- a`).join('\n'),
  'beginnings of links': '['.repeat(60_000),
  'stars in stars': '**a*'.repeat(15_000),
  'many paragraphs': `${'a.'.repeat(1000)}@\n\n`.repeat(40),
};
for (const [name, text] of Object.entries(COSTLY)) {
  test(`a text that is made to hold up the page is shown as it was written: ${name}`, { timeout: 60_000 }, () => {
    const letters = (some: string | null) => (some ?? '').replace(/[\s>-]/g, '');
    assert.equal(letters(shown(text).textContent), letters(text));
  });
}

// Each of these was some ten thousand elements.
const MANY: Record<string, string> = {
  tables: '|a|\n|-|\n|b|\n\n'.repeat(7000),
  'cells of a table': `|h${'|h'.repeat(99)}|\n|-${'|-'.repeat(99)}|\n${`|a${'|a'.repeat(99)}|\n`.repeat(490)}`,
  'blocks of code': '```x\n1\n```\n'.repeat(8000),
  items: '- a\n'.repeat(24_000),
  'words that stand out': `${'**a** '.repeat(80)}\n\n`.repeat(200),
  lines: 'a\n'.repeat(45_000),
};
for (const [name, text] of Object.entries(MANY)) {
  test(`a text may become so many elements, and what comes after is shown as it was written: many ${name}`, { timeout: 60_000 }, () => {
    const words = 'This is about them.\n\n';
    const place = shown(words + text);
    assert.ok(place.querySelectorAll('*').length <= 5010, String(place.querySelectorAll('*').length));
    assert.equal(place.querySelector('p')?.textContent, words.trim());
    const rest = place.querySelector(':scope > .code-place:last-child code')?.textContent ?? '';
    assert.ok(rest.length > 1000 && text.endsWith(rest.trimEnd() + text.slice(text.trimEnd().length)));
  });
}

test('HTML without an end is text from some tag on', { timeout: 60_000 }, () => {
  const place = shown(`${'<b>'.repeat(400)}one\n\n${'<div>\n'.repeat(10_000)}`);
  assert.ok(place.querySelectorAll('b').length >= 400);
  assert.ok(place.querySelectorAll('div').length < 100);
  assert.match(place.textContent ?? '', /one.*<div>/s);
});

test('what is longer than any message of an agent is no markdown', () => {
  assert.deepEqual([isTooLong('a'.repeat(100_000)), isTooLong('a'.repeat(100_001))], [false, true]);
  assert.equal(isTooLong(`![](data:image/png;base64,${'A'.repeat(200_000)})`), false);
  assert.equal(html('a'.repeat(100_001)), '');
});

/** Pieces of markdown and HTML, in any order. */
const piece = fc.oneof(
  fc.constantFrom('<', '>', '"', "'", '`', '```', '~~~', '*', '_', '[', ']', '(', ')', '!', '#', '|', '-', '\n', '\n\n', ' ', '    ', '&lt;', '&#x', '\\', '\0', '☑'),
  fc.constantFrom('<script>', '</script>', '<img src=x onerror=a()>', '<svg onload=a()>', '<a href="javascript:a()">', '<!--', '-->', '<style>', '<template>', '<noscript>', '<math>', '</p>', '<table>', '<td>', '<title>'),
  fc.constantFrom('javascript:a()', 'data:text/html,a', 'https://example.com', '[a]: javascript:a()', 'data:image/held,0', '- [x] '),
  fc.string(),
);
const NAMES = new Set(['align', 'alt', 'aria-label', 'class', 'colspan', 'dir', 'href', 'lang', 'open', 'rel', 'role', 'rowspan', 'src', 'start', 'tabindex', 'target', 'title', 'type']);

test('whatever is written, the page gets no element or attribute that does anything', () => {
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      const place = shown(pieces.join(''));
      for (const element of place.querySelectorAll('*')) {
        assert.doesNotMatch(element.localName, /^(script|style|svg|math|template|iframe|object|embed|form|input|dialog|link|meta|base|title|noscript)$/);
        if (element.localName === 'button') assert.equal(element.outerHTML, '<button type="button" class="copy" aria-label="Copy the code">Copy</button>');
        for (const { name } of element.attributes) assert.ok(NAMES.has(name), name);
        for (const name of ['href', 'src']) assert.doesNotMatch(element.getAttribute(name) ?? '', /^\s*javascript:|^\s*data:text/i);
      }
      assert.equal(typeof wordsOf(pieces.join(''), 300), 'string');
    }),
    { numRuns: 300 },
  );
});
