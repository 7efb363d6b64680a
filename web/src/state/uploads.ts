/** The files in the composers. A file is uploaded to the session's machine before the message with the file is sent. */

import { signal } from '@preact/signals';
import { errorText, HubError } from '../api/errors.ts';
import { randomId } from '../api/ids.ts';
import type { Attachment } from '../api/types.ts';
import { upload } from '../api/upload.ts';
import { formatSize } from '../content/file-size.ts';
import { getMessageDraft, NEW_SESSION, updateMessageDraft } from './drafts.ts';
import { api, auth } from './hub-client.ts';
import { state } from './store.ts';
import { isThumbnailType, keepThumbnail, MAX_THUMBNAIL_BYTES } from './thumbnails.ts';

/** A file in a composer. */
export interface Upload {
  id: string;
  file: File;
  /** The fraction that has been sent, 0 to 1. */
  progress: number;
  /** `unstarted`: the upload starts when the session is started. */
  status: 'unstarted' | 'sending' | 'done' | 'failed';
  error?: string;
  /** Whether the file is above the limit, so that a retry cannot help. */
  isTooLarge?: boolean;
  /** The path on the machine, once uploaded. */
  path?: string;
  abort: () => void;
}

/** The types of pictures that are scaled down. An animation would lose its frames. */
const SCALED_TYPES = ['image/png', 'image/jpeg', 'image/webp'];

/** By session id. */
const uploads = signal<Record<string, Upload[]>>({});

/** The sessions whose first message is sent when its files are uploaded. */
export const sessionsAwaitingUploads = signal<ReadonlySet<string>>(new Set());

export const getUploads = (sessionId: string): Upload[] => uploads.value[sessionId] ?? [];

export const hasUploads = (): boolean => Object.values(uploads.value).some((files) => files.length > 0);

/** Returns the names of files that were attached before the page was reloaded, or in another tab. */
export function missingFiles(sessionId: string): string[] {
  const attached = new Set(getUploads(sessionId).map(({ file }) => file.name));
  return getMessageDraft(sessionId).files.filter((name) => !attached.has(name));
}

export function forgetMissingFiles(sessionId: string): void {
  updateMessageDraft(sessionId, { files: getUploads(sessionId).map(({ file }) => file.name) });
}

/** Sets the files of a composer. The draft stores the names of the files, because the files are lost when the page is closed. */
function setUploads(sessionId: string, files: Upload[]): void {
  const missing = missingFiles(sessionId);
  uploads.value = { ...uploads.value, [sessionId]: files };
  updateMessageDraft(sessionId, { files: [...missing, ...files.map(({ file }) => file.name)] });
}

function updateUpload(sessionId: string, id: string, changes: Partial<Upload>): void {
  const updated = getUploads(sessionId).map((item) => (item.id === id ? { ...item, ...changes } : item));
  uploads.value = { ...uploads.value, [sessionId]: updated };
}

/** Adds files and starts their uploads. The uploads of a session that is not started yet start with {@link moveFiles}. */
export function addFiles(sessionId: string, files: Iterable<File>): void {
  for (const file of files) {
    const startsLater = sessionId === NEW_SESSION;
    const limit = state.value.config?.limits.uploadBytes ?? Infinity;
    const added: Upload = { id: randomId(), file, progress: 0, status: startsLater ? 'unstarted' : 'sending', abort: () => {} };
    const tooLarge = {
      status: 'failed',
      isTooLarge: true,
      error: `${formatSize(file.size)} is above the limit of ${formatSize(limit)}`,
    } as const;
    setUploads(sessionId, [...getUploads(sessionId), file.size > limit ? { ...added, ...tooLarge } : added]);
    if (!startsLater && file.size <= limit) void startUpload(sessionId, added);
  }
}

/** Moves the files of a session that was not started yet to the started session. */
export function moveFiles(sessionId: string): void {
  setUploads(sessionId, [...getUploads(sessionId), ...getUploads(NEW_SESSION)]);
  setUploads(NEW_SESSION, []);
}

/** Uploads a file, or retries a failed upload. */
export async function startUpload(sessionId: string, { id, file: original }: Upload): Promise<void> {
  const controller = new AbortController();
  updateUpload(sessionId, id, { status: 'sending', progress: 0, abort: () => controller.abort() });
  try {
    const file = await fit(original);
    setUploads(
      sessionId,
      getUploads(sessionId).map((item) => (item.id === id ? { ...item, file } : item)),
    );
    controller.signal.throwIfAborted();
    const token = await auth.getValidJwt();
    const onProgress = (progress: number) => updateUpload(sessionId, id, { progress });
    const path = await upload(sessionId, file, { token, signal: controller.signal, onProgress });
    updateUpload(sessionId, id, { status: 'done', path });
  } catch (error) {
    updateUpload(sessionId, id, {
      status: 'failed',
      isTooLarge: error instanceof HubError && error.status === 413,
      error: errorText(error),
    });
  }
}

async function fit(file: File): Promise<File> {
  if (!SCALED_TYPES.includes(file.type)) return file;
  const { fitPicture } = await import('./fit-picture.ts');
  return fitPicture(file);
}

/** Removes a file, and deletes it on the machine if it was uploaded. */
export function removeFile(sessionId: string, { id, path, abort }: Upload): void {
  abort();
  setUploads(
    sessionId,
    getUploads(sessionId).filter((item) => item.id !== id),
  );
  const params = { path: { id: sessionId } };
  // Errors are ignored, because a file that stays on the machine does no harm.
  if (path !== undefined) void api.POST('/api/sessions/{id}/upload/delete', { params, body: { path } }).catch(() => {});
}

/** Removes the uploaded files from the composer and returns them as the attachments of a message. */
export function takeAttachments(sessionId: string): Attachment[] {
  const uploadsOfSession = getUploads(sessionId);
  setUploads(
    sessionId,
    uploadsOfSession.filter(({ status }) => status !== 'done'),
  );
  const done = uploadsOfSession.filter(({ status }) => status === 'done');
  for (const { file, path } of done)
    if (path !== undefined && isThumbnailType(file.type) && file.size <= MAX_THUMBNAIL_BYTES) keepThumbnail(sessionId, path, file);
  return done.map(({ id, file, path = '' }) => ({
    id,
    filename: file.name,
    mimeType: file.type || 'application/octet-stream',
    size: file.size,
    path,
  }));
}
