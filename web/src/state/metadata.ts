/** Validates the metadata of sessions and machines, which CLIs write and the hub stores unchanged. */

import { dropInvalidFields, isObject, isString, type Validator } from '../api/validate.ts';

/** The fields that the console reads. */
const VALIDATORS: Record<string, Validator> = {
  path: isString,
  host: isString,
  name: isString,
  flavor: isString,
  machineId: isString,
  lifecycleState: isString,
  agentError: isString,
  homeDir: isString,
  uploadsPath: isString,
  displayName: isString,
  platform: isString,
  version: isString,
  agentName: isString,
  terminalCommand: isString,
  terminalProgram: isString,
  importedMessages: (value) => Number.isSafeInteger(value),
  summary: (value) => hasStrings(value, ['text']),
  worktree: (value) => hasStrings(value, ['basePath', 'branch']),
};

const hasStrings = (value: unknown, names: string[]) =>
  isObject(value) && names.every((name) => value[name] === undefined || isString(value[name]));

/** Returns a session, a machine, or an update of either, without invalid metadata fields. Returns other values unchanged. */
export function withValidMetadata<T extends object>(value: T): T {
  if (!('metadata' in value)) return value;
  return { ...value, metadata: isObject(value.metadata) ? dropInvalidFields(value.metadata, VALIDATORS) : null };
}
