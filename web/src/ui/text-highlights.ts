/** Marks a text in rendered elements with the CSS Custom Highlight API, which does not change the elements. */

const ALL = 'search-hits';
const CURRENT = 'search-current';

/** Limit on the marked places. */
const MAX_RANGES = 2000;

const isSupported = typeof Highlight === 'function' && 'highlights' in CSS;

/** Returns the places of a text in an element, without regard to case. A place does not span several text nodes. */
function findRanges(root: Element, text: string): Range[] {
  const searched = text.toLowerCase();
  const ranges: Range[] = [];
  const nodes = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = nodes.nextNode(); node !== null && ranges.length < MAX_RANGES; node = nodes.nextNode()) {
    const content = (node.nodeValue ?? '').toLowerCase();
    // Some letters have another length in lower case, such as `İ`.
    if (content.length !== node.nodeValue?.length) continue;
    for (let at = content.indexOf(searched); at !== -1; at = content.indexOf(searched, at + searched.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + searched.length);
      ranges.push(range);
    }
  }
  return ranges;
}

/** Marks a text in an element. Returns the first place in the element `currentHit`; null if there is none. */
export function markText(root: Element, text: string, currentHit: Element | null): Range | null {
  const inCurrent = currentHit ? findRanges(currentHit, text) : [];
  if (isSupported) {
    CSS.highlights.set(ALL, new Highlight(...findRanges(root, text)));
    const current = new Highlight(...inCurrent.slice(0, 1));
    current.priority = 1;
    CSS.highlights.set(CURRENT, current);
  }
  return inCurrent[0] ?? null;
}

export function clearMarks(): void {
  if (!isSupported) return;
  CSS.highlights.delete(ALL);
  CSS.highlights.delete(CURRENT);
}
