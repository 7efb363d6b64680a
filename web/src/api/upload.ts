/** Uploads a file to the machine of a session. */

import { REQUEST_ID_HEADER, responseError, unreachableError } from './errors.ts';
import { isObject, isString } from './validate.ts';

/**
 * Bytes of a file that are encoded at a time; a multiple of 3, so that the slices need no padding. One string for a whole file would
 * fill the tab's memory.
 */
const SLICE_BYTES = 3 * 1024 * 1024;

async function readAsBase64(file: Blob): Promise<string> {
  const url = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error ?? new Error('The file cannot be read.'));
    reader.readAsDataURL(file);
  });
  return url.slice(url.indexOf(',') + 1);
}

/** Returns the JSON body of an upload. The browser keeps the parts of a large `Blob` outside the tab's memory. */
async function uploadBody(file: File, signal: AbortSignal): Promise<Blob> {
  const fields = JSON.stringify({ filename: file.name, mimeType: file.type || 'application/octet-stream' });
  const parts: BlobPart[] = [`${fields.slice(0, -1)},"content":"`];
  for (let offset = 0; offset < file.size; offset += SLICE_BYTES) {
    signal.throwIfAborted();
    parts.push(new Blob([await readAsBase64(file.slice(offset, offset + SLICE_BYTES))]));
  }
  return new Blob([...parts, '"}'], { type: 'application/json' });
}

/**
 * Uploads a file with XMLHttpRequest, because `fetch` reports no upload progress.
 * @param onProgress receives the fraction that has been sent, 0 to 1
 * @returns the path of the file on the machine
 * @throws {HubError} for an error response, or if the hub cannot be reached
 * @throws {Error} if the machine rejects the file, with the machine's error message
 * @throws {DOMException} `AbortError` after `signal` is aborted
 */
export async function upload(
  sessionId: string,
  file: File,
  { token, signal, onProgress }: { token: string; signal: AbortSignal; onProgress: (fraction: number) => void },
): Promise<string> {
  const body = await uploadBody(file, signal);
  const request = new XMLHttpRequest();
  const uploadedPath = new Promise<string>((resolve, reject) => {
    request.upload.onprogress = ({ loaded, total }) => onProgress(total ? loaded / total : 0);
    request.onerror = () => reject(unreachableError());
    request.onabort = () => reject(new DOMException('The upload was canceled.', 'AbortError'));
    request.onload = () => {
      let answer: unknown;
      try {
        answer = JSON.parse(request.responseText);
      } catch {
        answer = null;
      }
      if (request.status !== 200) reject(responseError(request.status, answer, request.getResponseHeader(REQUEST_ID_HEADER)));
      else if (isObject(answer) && answer.success && isString(answer.path)) resolve(answer.path);
      else
        reject(
          new Error((isObject(answer) && isString(answer.error) && answer.error) || 'The machine rejected the file without a reason.'),
        );
    };
  });
  signal.throwIfAborted();
  signal.addEventListener('abort', () => request.abort());
  request.open('POST', `./api/sessions/${encodeURIComponent(sessionId)}/upload`);
  request.setRequestHeader('authorization', `Bearer ${token}`);
  // No timeout: a large file on a slow line takes long, and the hub ends an upload without progress.
  request.send(body);
  return uploadedPath;
}
