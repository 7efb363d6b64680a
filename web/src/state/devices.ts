/** The devices of the namespace: each has a token of its own, which can be revoked. */

import { unwrap } from '../api/client.ts';
import type { Device } from '../api/types.ts';
import { api } from './hub-client.ts';

export const fetchDevices = async (): Promise<Device[]> => (await unwrap(api.GET('/api/devices'))).devices;

/** Creates a code that adds a device. */
export const createCode = () => unwrap(api.POST('/api/devices/codes', { body: {} }));

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
