/** Uploads a file to the machine of a session. */

import { responseError, unreachableError } from './errors.ts';
import { isObject, isString } from './validate.ts';

/** Enough for 50 MB at 1 Mbit/s, encoded as base64. */
const UPLOAD_TIMEOUT_MS = 15 * 60_000;

async function readAsBase64(file: Blob): Promise<string> {
  const url = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error ?? new Error('The file cannot be read.'));
    reader.readAsDataURL(file);
  });
  return url.slice(url.indexOf(',') + 1);
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
  const content = await readAsBase64(file);
  const request = new XMLHttpRequest();
  const uploadedPath = new Promise<string>((resolve, reject) => {
    request.upload.onprogress = ({ loaded, total }) => onProgress(total ? loaded / total : 0);
    request.onerror = request.ontimeout = () => reject(unreachableError());
    request.onabort = () => reject(new DOMException('The upload was canceled.', 'AbortError'));
    request.onload = () => {
      let body: unknown;
      try {
        body = JSON.parse(request.responseText);
      } catch {
        body = null;
      }
      if (request.status !== 200) reject(responseError(request.status, body));
      else if (isObject(body) && body.success && isString(body.path)) resolve(body.path);
      else reject(new Error((isObject(body) && isString(body.error) && body.error) || 'The machine rejected the file without a reason.'));
    };
  });
  signal.throwIfAborted();
  signal.addEventListener('abort', () => request.abort());
  request.open('POST', `/api/sessions/${encodeURIComponent(sessionId)}/upload`);
  request.timeout = UPLOAD_TIMEOUT_MS;
  request.setRequestHeader('authorization', `Bearer ${token}`);
  request.setRequestHeader('content-type', 'application/json');
  request.send(JSON.stringify({ filename: file.name, mimeType: file.type || 'application/octet-stream', content }));
  return uploadedPath;
}
