/** The options of an agent other than its mode and its model. CLIs write them into the metadata of sessions and machines. */

import type { Choice } from '../api/types.ts';
import { isString, parseObjects } from '../api/validate.ts';

export interface AgentOption {
  id: string;
  label: string;
  description?: string;
  category?: string;
  /** The id of a choice; a boolean for a switch. */
  value: string | boolean;
  /** Empty for a switch. */
  choices: Choice[];
}

/** Whether an option says how long the model thinks, so that it is shown next to the model. */
export const isEffort = ({ category, value }: AgentOption): boolean => category === 'thought_level' && isString(value);

const CHOICE_FIELDS = { id: isString, name: isString, description: isString, neverAsks: (value: unknown) => value === true };
const OPTION_FIELDS = {
  ...CHOICE_FIELDS,
  category: isString,
  value: (value: unknown) => isString(value) || typeof value === 'boolean',
};

interface NamedObject {
  id: string;
  name?: string;
  description?: string;
}

const withLabel = ({ id, name, description }: NamedObject) => ({
  id,
  label: name || id,
  ...(description === undefined ? {} : { description }),
});

export const parseChoices = (choices: unknown): Choice[] =>
  parseObjects<NamedObject & { neverAsks?: boolean }>(choices, CHOICE_FIELDS, ['id']).map(({ neverAsks, ...choice }) => ({
    ...withLabel(choice),
    ...(neverAsks ? { neverAsks } : {}),
  }));

/** Returns the valid options. Drops options whose id an earlier option has, and options of the type `select` without a choice. */
export function parseOptions(options: unknown): AgentOption[] {
  const parsed = parseObjects<NamedObject & { category?: string; value: string | boolean; choices?: unknown }>(options, OPTION_FIELDS, [
    'id',
    'value',
  ]).map(({ category, value, choices, ...option }) => ({
    ...withLabel(option),
    ...(category === undefined ? {} : { category }),
    value,
    choices: isString(value) ? parseChoices(choices) : [],
  }));
  return parsed.filter(
    ({ id, value, choices }, index) => parsed.findIndex((other) => other.id === id) === index && (!isString(value) || choices.length > 0),
  );
}
