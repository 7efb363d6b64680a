/** Formats JSON for display. */

/** Deeper levels stay on one line, because the size of indented output grows with the square of the depth. */
const MAX_INDENTED = 12;

/** Formats a value as indented JSON. Agents send values of any depth; `JSON.stringify` throws after some thousand levels. */
export function formatJson(value: unknown): string {
  let output = '';
  // A stack instead of recursion: its last element is written next.
  const pending: ({ text: string } | { value: unknown; depth: number })[] = [{ value, depth: 0 }];
  for (let part = pending.pop(); part !== undefined; part = pending.pop()) {
    if ('text' in part) {
      output += part.text;
      continue;
    }
    const { value: current, depth } = part;
    if (typeof current !== 'object' || current === null) {
      output += JSON.stringify(current) ?? 'null';
      continue;
    }
    const isList = Array.isArray(current);
    const members = Object.entries(current);
    const [open, close] = isList ? ['[', ']'] : ['{', '}'];
    const newLine = (indent: number) => (members.length > 0 && depth < MAX_INDENTED ? `\n${'  '.repeat(indent)}` : '');
    output += open;
    pending.push({ text: `${newLine(depth)}${close}` });
    for (const [index, [name, member]] of [...members.entries()].reverse()) {
      pending.push({ value: member, depth: depth + 1 });
      pending.push({ text: `${index > 0 ? ',' : ''}${newLine(depth + 1)}${isList ? '' : `${JSON.stringify(name)}: `}` });
    }
  }
  return output;
}
