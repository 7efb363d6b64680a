/** Files on their way to the session's machine, before the message that names them is sent. */

import { signal } from '@preact/signals';
import { Paperclip, RotateCw, X } from 'lucide-preact';
import { sentence } from '../api/errors.ts';
import { newId } from '../api/ids.ts';
import type { Attachment } from '../api/types.ts';
import { MAX_UPLOAD_BYTES, upload } from '../api/upload.ts';
import { api, auth } from '../hub.ts';
import { sizeOf } from '../ui/pieces.tsx';

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

function change(sessionId: string, id: string, changes: Partial<Upload>): void {
  const next = uploadsOf(sessionId).map((one) => (one.id === id ? { ...one, ...changes } : one));
  uploads.value = { ...uploads.value, [sessionId]: next };
}

/** Adds files and begins to send them. */
export function addFiles(sessionId: string, files: Iterable<File>): void {
  for (const file of files) {
    const one: Upload = { id: newId(), file, share: 0, state: 'sending', abort: () => {} };
    uploads.value = { ...uploads.value, [sessionId]: [...uploadsOf(sessionId), one] };
    void send(sessionId, one);
  }
}

async function send(sessionId: string, { id, file }: Upload): Promise<void> {
  if (file.size > MAX_UPLOAD_BYTES) {
    change(sessionId, id, { state: 'failed', error: `It is larger than ${sizeOf(MAX_UPLOAD_BYTES)}.` });
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
function removeFile(sessionId: string, { id, path, abort }: Upload): void {
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

/** The files above the line to write. */
export function Uploads({ sessionId }: { sessionId: string }) {
  const all = uploadsOf(sessionId);
  if (all.length === 0) return null;
  return (
    <>
      <ul role="list" class="uploads" aria-label="Files to send">
        {all.map((one) => (
          <li key={one.id} data-state={one.state}>
            <Paperclip size={15} aria-hidden />
            <span class="ellipsis">{one.file.name}</span>
            <span class="muted small">{one.state === 'failed' ? one.error : sizeOf(one.file.size)}</span>
            {one.state === 'sending' && <progress value={one.share} max={1} aria-label={`Sending ${one.file.name}`} />}
            {one.state === 'failed' && (
              <button type="button" class="button quiet icon" aria-label={`Send ${one.file.name} again`} onClick={() => void send(sessionId, one)}>
                <RotateCw size={16} aria-hidden />
              </button>
            )}
            <button type="button" class="button quiet icon" aria-label={`Remove ${one.file.name}`} onClick={() => removeFile(sessionId, one)}>
              <X size={16} aria-hidden />
            </button>
          </li>
        ))}
      </ul>
      {all.some(({ state }) => state === 'failed') && (
        <p class="notice danger small" role="alert">
          A file did not reach the machine. Send it again or remove it: the message waits until then.
        </p>
      )}
    </>
  );
}
