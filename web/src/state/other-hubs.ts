/** Links to other hubs. Each hub has a console of its own, at its own address. */

import { signal } from '@preact/signals';
import { readJson } from '../api/read-json.ts';
import { isObject, isString } from '../api/validate.ts';
import { hubAddress } from '../content/hub-address.ts';

export interface OtherHub {
  name: string;
  /** The address of the hub's console without a trailing slash: an origin, or a prefix under which a proxy serves the hub. */
  origin: string;
}

const KEY = 'other-hubs';

export const MAX_HUB_NAME_LENGTH = 64;

export const otherHubs = signal<OtherHub[]>(readHubs());

addEventListener('storage', () => {
  otherHubs.value = readHubs();
});

function readHubs(): OtherHub[] {
  const stored = readJson<unknown>(localStorage, KEY);
  if (!Array.isArray(stored)) return [];
  return stored.flatMap((hub: unknown) =>
    isObject(hub) && isString(hub.name) && isString(hub.origin) && parseAddress(hub.origin) ? [{ name: hub.name, origin: hub.origin }] : [],
  );
}

/** Matches the path of a page of the console. */
const PAGE = /\/((archive|inbox|machines|new|pair|sessions|settings|sign-in)(\/.*)?)?$/;

function parseAddress(address: string): string | null {
  const url = URL.canParse(address) ? new URL(address) : null;
  return url && ['https:', 'http:'].includes(url.protocol) && url.username === '' && url.password === ''
    ? url.origin + url.pathname.replace(PAGE, '')
    : null;
}

/**
 * Adds a link, or renames the link with the same address.
 * @throws {Error} if the address is not that of another hub. Its message is for the user
 */
export function addHub(name: string, address: string): void {
  // People type addresses without the scheme.
  const origin = parseAddress(address.includes('://') ? address : `https://${address}`);
  if (origin === null) throw new Error('Enter the address of a hub, such as https://hub.example.com.');
  if (origin === hubAddress()) throw new Error('This is the address of this hub. Add an account instead.');
  const hub = { name: name.trim() || new URL(origin).host, origin };
  storeHubs([...otherHubs.value.filter((other) => other.origin !== origin), hub]);
}

export function removeHub({ origin }: OtherHub): void {
  storeHubs(otherHubs.value.filter((other) => other.origin !== origin));
}

function storeHubs(hubs: OtherHub[]): void {
  if (hubs.length === 0) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, JSON.stringify(hubs));
  otherHubs.value = hubs;
}
