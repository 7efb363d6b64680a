/** The agent's slash commands. */

import { asList, firstLine, isText } from './values.mjs';

const MAX_COMMANDS = 500;
const MAX_NAME_CHARS = 100;
const MAX_DESCRIPTION_CHARS = 300;

/**
 * Returns the names and descriptions of commands. Leaves out other fields: one agent sends half a megabyte of them.
 * @param {unknown} availableCommands
 * @returns {import('./records.mjs').Command[]}
 */
export const toCommands = (availableCommands) =>
  asList(availableCommands)
    .filter((command) => isText(command?.name) && command.name.length <= MAX_NAME_CHARS)
    .slice(0, MAX_COMMANDS)
    .map(({ name, description }) => ({
      name,
      description: isText(description) ? firstLine(description, MAX_DESCRIPTION_CHARS) : '',
    }));
