/** Completing what is written after a slash. */

/** Something that can be written after a slash. */
export interface Command {
  name: string;
  description: string;
}

/** So many are offered at once. */
const OFFERED = 8;

/** The commands that go with what has been written so far; none when that is no command. */
export function completions(commands: Command[], text: string): Command[] {
  const typed = /^\/([\w:-]*)$/.exec(text)?.[1];
  if (typed === undefined) return [];
  const word = typed.toLowerCase();
  const starts = commands.filter(({ name }) => name.toLowerCase().startsWith(word));
  const contains = commands.filter((one) => !starts.includes(one) && one.name.toLowerCase().includes(word));
  return [...starts, ...contains].slice(0, OFFERED);
}
