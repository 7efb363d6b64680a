/** Completion of slash commands. */

/** A command or skill; `name` is without the slash. */
export interface Command {
  name: string;
  description: string;
}

const MAX_COMPLETIONS = 8;

/** Returns the commands that match a partly typed command such as `/re`; none for any other text. */
export function matchCommands(commands: Command[], text: string): Command[] {
  const typed = /^\/([\w:-]*)$/.exec(text)?.[1];
  if (typed === undefined) return [];
  const word = typed.toLowerCase();
  const starts = commands.filter(({ name }) => name.toLowerCase().startsWith(word));
  const contains = commands.filter((command) => !starts.includes(command) && command.name.toLowerCase().includes(word));
  return [...starts, ...contains].slice(0, MAX_COMPLETIONS);
}
