/** JSON as a person reads it. */

/** So deep lists and objects begin lines of their own: each level of more would cost as many blanks as there are above it. */
const MAX_INDENTED = 12;

/**
 * The JSON of a value, on lines of its own. However deep it goes, which an agent decides, no stack ends:
 * `JSON.stringify` throws at some thousand levels.
 */
export function json(value: unknown): string {
  let written = '';
  /** What is to be written next stands last. */
  const left: ({ text: string } | { value: unknown; depth: number })[] = [{ value, depth: 0 }];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    if ('text' in next) {
      written += next.text;
      continue;
    }
    const { value: one, depth } = next;
    if (typeof one !== 'object' || one === null) {
      written += JSON.stringify(one) ?? 'null';
      continue;
    }
    const isList = Array.isArray(one);
    const members = Object.entries(one);
    const [open, close] = isList ? ['[', ']'] : ['{', '}'];
    const line = (indent: number) => (members.length > 0 && depth < MAX_INDENTED ? `\n${'  '.repeat(indent)}` : '');
    written += open;
    left.push({ text: `${line(depth)}${close}` });
    for (const [at, [name, member]] of [...members.entries()].reverse()) {
      left.push({ value: member, depth: depth + 1 });
      left.push({ text: `${at > 0 ? ',' : ''}${line(depth + 1)}${isList ? '' : `${JSON.stringify(name)}: `}` });
    }
  }
  return written;
}
