/** Files on their way to a session's machine, before the message that names them is sent. */

import { signal } from '@preact/signals';
import { sentence } from '../api/errors.ts';
import { newId } from '../api/ids.ts';
import type { Attachment } from '../api/types.ts';
import { MAX_UPLOAD_BYTES, upload } from '../api/upload.ts';
import { api, auth } from '../hub.ts';

/** A file of the composer. */
export interface Upload {
  id: string;
  file: File;
  /** The share that has been sent, 0 to 1. */
  share: number;
  state: 'sending' | 'done' | 'failed';
  error?: string;
  path?: string;
  abort: () => void;
}

/** The files of a session's composer. They stay while another session is looked at. */
const uploads = signal<Record<string, Upload[]>>({});

/** The files of a session's composer. */
export const uploadsOf = (sessionId: string): Upload[] => uploads.value[sessionId] ?? [];

/** Whether any session's composer has files. */
export const hasUploads = (): boolean => Object.values(uploads.value).some((files) => files.length > 0);

function change(sessionId: string, id: string, changes: Partial<Upload>): void {
  const next = uploadsOf(sessionId).map((one) => (one.id === id ? { ...one, ...changes } : one));
  uploads.value = { ...uploads.value, [sessionId]: next };
}

/** Adds files and begins to send them. */
export function addFiles(sessionId: string, files: Iterable<File>): void {
  for (const file of files) {
    const one: Upload = { id: newId(), file, share: 0, state: 'sending', abort: () => {} };
    uploads.value = { ...uploads.value, [sessionId]: [...uploadsOf(sessionId), one] };
    void sendFile(sessionId, one);
  }
}

/** Sends a file, or sends one again that did not arrive. */
export async function sendFile(sessionId: string, { id, file }: Upload): Promise<void> {
  if (file.size > MAX_UPLOAD_BYTES) {
    change(sessionId, id, { state: 'failed', error: `It is larger than ${MAX_UPLOAD_BYTES / 1024 ** 2} MiB.` });
    return;
  }
  const controller = new AbortController();
  change(sessionId, id, { state: 'sending', share: 0, abort: () => controller.abort() });
  try {
    const token = await auth.token();
    const onProgress = (share: number) => change(sessionId, id, { share });
    const path = await upload(sessionId, file, { token, signal: controller.signal, onProgress });
    change(sessionId, id, { state: 'done', path });
  } catch (error) {
    change(sessionId, id, { state: 'failed', error: sentence(error) });
  }
}

/** Takes a file out, and off the machine when it is there. */
export function removeFile(sessionId: string, { id, path, abort }: Upload): void {
  abort();
  uploads.value = { ...uploads.value, [sessionId]: uploadsOf(sessionId).filter((one) => one.id !== id) };
  const params = { path: { id: sessionId } };
  // Left behind it is of no harm.
  if (path !== undefined) void api.POST('/api/sessions/{id}/upload/delete', { params, body: { path } }).catch(() => {});
}

/** Takes the files that have arrived, for a message. Those that have not stay. */
export function takeAttachments(sessionId: string): Attachment[] {
  const all = uploadsOf(sessionId);
  uploads.value = { ...uploads.value, [sessionId]: all.filter(({ state }) => state !== 'done') };
  return all.filter(({ state }) => state === 'done').map(({ id, file, path = '' }) => ({
    id,
    filename: file.name,
    mimeType: file.type || 'application/octet-stream',
    size: file.size,
    path,
  }));
}
