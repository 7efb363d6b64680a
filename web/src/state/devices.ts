/** The devices of the namespace: each has a token of its own, which can be revoked. */

import { unwrap } from '../api/client.ts';
import type { HubError } from '../api/errors.ts';
import type { Device } from '../api/types.ts';
import { PAIR_PATH } from '../content/device-code.ts';
import { hubAddress } from '../content/hub-address.ts';
import { api } from './hub-client.ts';

export const fetchDevices = async (): Promise<Device[]> => (await unwrap(api.GET('/api/devices'))).devices;

/** How long a code is valid (docs/PROTOCOL-DEVICES.md). */
const CODE_LIFETIME_MS = 300_000;

/** A code that adds a device. */
export interface DeviceCode {
  code: string;
  /** The link that signs the device in. */
  url: string;
  /** Unix milliseconds, by the clock of this computer, which may differ from the hub's. */
  expiresAt: number;
  /** The id of the device that will use the code. */
  deviceId: string;
}

/** Creates a code that adds a device. */
export async function createCode(): Promise<DeviceCode> {
  const requestedAt = Date.now();
  const { code, deviceId } = await unwrap(api.POST('/api/devices/codes', { body: {} }));
  // The hub does not know the prefix under which a proxy serves it.
  return { code, url: `${hubAddress() + PAIR_PATH}#${code}`, expiresAt: requestedAt + CODE_LIFETIME_MS, deviceId };
}

/** What has become of a code: the device that has used it, or `unused`, or `invalid` because it has expired or was deleted. */
export type CodeState = Device | 'unused' | 'invalid';

export async function fetchCodeState({ deviceId }: Pick<DeviceCode, 'deviceId'>): Promise<CodeState> {
  try {
    return (await unwrap(api.GET('/api/devices/codes/{deviceId}', { params: { path: { deviceId } } }))).device ?? 'unused';
  } catch (error) {
    if ((error as HubError).code === 'unknown_code') return 'invalid';
    throw error;
  }
}

export const renameDevice = (id: string, name: string) =>
  unwrap(api.PATCH('/api/devices/{id}', { params: { path: { id } }, body: { name } }));

export const revokeDevice = (id: string) => unwrap(api.DELETE('/api/devices/{id}', { params: { path: { id } } }));

/** Fetches what a device that shows this code asks for. */
export const fetchAccessRequest = async (code: string) =>
  (await unwrap(api.GET('/api/devices/requests/{code}', { params: { path: { code } } }))).request;

export const decideAccessRequest = (code: string, decision: 'approve' | 'deny') =>
  unwrap(api.POST('/api/devices/requests/{code}', { params: { path: { code } }, body: { decision } }));

/** Revokes the token of this browser. */
export async function revokeThisDevice(): Promise<void> {
  const current = (await fetchDevices()).find(({ isCurrent }) => isCurrent);
  if (current) await revokeDevice(current.id);
}
