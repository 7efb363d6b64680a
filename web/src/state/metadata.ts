/** The metadata of sessions and machines: their CLIs write it, and the hub keeps it as it is. */

import { checked, type Is, isObject, isText } from '../checked.ts';

/** What the fields hold that the console reads. */
const FIELDS: Record<string, Is> = {
  path: isText,
  host: isText,
  name: isText,
  flavor: isText,
  machineId: isText,
  lifecycleState: isText,
  homeDir: isText,
  displayName: isText,
  platform: isText,
  version: isText,
  summary: (value) => hasTexts(value, ['text']),
  worktree: (value) => hasTexts(value, ['basePath', 'branch']),
};

const hasTexts = (value: unknown, names: string[]) => isObject(value) && names.every((name) => value[name] === undefined || isText(value[name]));

/** A session, a machine or what changes in one, as it came from the hub, with no metadata but what the views can show. */
export function described<T extends object>(one: T): T {
  if (!('metadata' in one)) return one;
  return { ...one, metadata: isObject(one.metadata) ? checked(one.metadata, FIELDS) : null };
}
