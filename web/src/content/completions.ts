/** Completion of slash commands. */

import { isObject, isString } from '../api/validate.ts';

/** A command or skill; `name` is without the slash. */
export interface Command {
  name: string;
  description: string;
}

const MAX_COMPLETIONS = 8;

/** Reads a list of commands or skills, each a name or an object `{name, description?}`. A slash before the name is dropped. */
export function readCommands(list: unknown, defaultDescription: string): Command[] {
  if (!Array.isArray(list)) return [];
  const objects = list.map((item): Record<string, unknown> => (isObject(item) ? item : { name: item }));
  return objects.flatMap(({ name, description }) => {
    const word = isString(name) ? name.replace(/^\//, '') : '';
    return word === '' ? [] : [{ name: word, description: (isString(description) && description) || defaultDescription }];
  });
}

/** Returns the commands that match a partly typed command such as `/re`; none for any other text. */
export function matchCommands(commands: Command[], text: string): Command[] {
  const typed = /^\/([\w:-]*)$/.exec(text)?.[1];
  if (typed === undefined) return [];
  const word = typed.toLowerCase();
  const startingWith = commands.filter(({ name }) => name.toLowerCase().startsWith(word));
  const containing = commands.filter((command) => !startingWith.includes(command) && command.name.toLowerCase().includes(word));
  return [...startingWith, ...containing].slice(0, MAX_COMPLETIONS);
}
