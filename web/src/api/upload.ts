/** Sends a file to the machine of a session. */

import { isObject, isText } from '../checked.ts';
import { refusal, unreachable } from './errors.ts';

/** The largest file that the hub takes, in bytes. */
export const MAX_UPLOAD_BYTES = 50 * 1024 * 1024;

/** An upload that takes longer has failed: 50 MB through 1 Mbit/s, and the answer of the machine. */
const LONGEST_MS = 15 * 60_000;

/** The content of a file as base64. */
async function base64(file: Blob): Promise<string> {
  const url = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error ?? new Error('The file cannot be read.'));
    reader.readAsDataURL(file);
  });
  return url.slice(url.indexOf(',') + 1);
}

/**
 * Uploads a file. `fetch` cannot tell how far an upload is, so this is an XMLHttpRequest.
 * @param onProgress hears the share that has been sent, 0 to 1
 * @returns the path of the file on the machine
 * @throws {HubError} the hub's refusal; an Error with the machine's words; a DOMException `AbortError`
 */
export async function upload(
  sessionId: string,
  file: File,
  { token, signal, onProgress }: { token: string; signal: AbortSignal; onProgress: (share: number) => void },
): Promise<string> {
  const content = await base64(file);
  const request = new XMLHttpRequest();
  const answered = new Promise<string>((resolve, reject) => {
    request.upload.onprogress = ({ loaded, total }) => onProgress(total ? loaded / total : 0);
    request.onerror = request.ontimeout = () => reject(unreachable());
    request.onabort = () => reject(new DOMException('The upload was canceled.', 'AbortError'));
    request.onload = () => {
      let body: unknown;
      try {
        body = JSON.parse(request.responseText);
      } catch {
        body = null;
      }
      if (request.status !== 200) reject(refusal(request.status, body));
      else if (isObject(body) && body.success && isText(body.path)) resolve(body.path);
      else reject(new Error((isObject(body) && isText(body.error) && body.error) || 'The machine did not take the file.'));
    };
  });
  signal.throwIfAborted();
  signal.addEventListener('abort', () => request.abort());
  request.open('POST', `/api/sessions/${encodeURIComponent(sessionId)}/upload`);
  request.timeout = LONGEST_MS;
  request.setRequestHeader('authorization', `Bearer ${token}`);
  request.setRequestHeader('content-type', 'application/json');
  request.send(JSON.stringify({ filename: file.name, mimeType: file.type || 'application/octet-stream', content }));
  return answered;
}
