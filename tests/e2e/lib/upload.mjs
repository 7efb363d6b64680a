/** Uploads a file in pieces, so that the whole file is never in the memory of the test. */

import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import { deferred, withTimeout } from '../../../scripts/lib/await.mjs';

/** A multiple of 3, so that the pieces' base64 can be joined. */
const PIECE_BYTES = 3 * 256 * 1024;

/**
 * Uploads random bytes, as fast as the hub accepts them.
 * @param {import('./hub.mjs').Hub} hub
 * @param {string} path of the upload route
 * @param {{size: number, namespace?: string, contentFirst?: boolean, onPiece?: (sent: number, request: http.ClientRequest) => unknown}} options
 *   `onPiece`: called before each piece with the bytes of the file that were sent
 * @returns {Promise<{status: number, body: any, digest: string}>}
 */
export async function streamUpload(hub, path, { size, namespace, contentFirst = false, onPiece = () => {} }) {
  const headers = { authorization: `Bearer ${hub.token(namespace)}`, 'content-type': 'application/json' };
  const request = http.request(`${hub.url}${path}`, { method: 'POST', agent: false, headers });
  const answered = deferred();
  let isAnswered = false;
  request.once('error', answered.reject);
  request.once('response', (response) => {
    isAnswered = true;
    answered.resolve(response);
  });
  answered.promise.catch(() => (isAnswered = true));
  const fields = '"filename":"large.bin","mimeType":"application/octet-stream"';
  const hash = createHash('sha256');
  const block = randomBytes(PIECE_BYTES);
  request.write(contentFirst ? '{"content":"' : `{${fields},"content":"`);
  for (let sent = 0; sent < size && !isAnswered; sent += PIECE_BYTES) {
    await onPiece(sent, request);
    // Each piece is different, so that the digest shows a lost or repeated piece.
    block.writeUInt32BE(sent, 0);
    const piece = block.subarray(0, Math.min(PIECE_BYTES, size - sent));
    hash.update(piece);
    if (!request.write(piece.toString('base64')))
      await Promise.race([once(request, 'drain').catch(() => {}), answered.promise.catch(() => {})]);
  }
  request.end(contentFirst ? `",${fields}}` : '"}');
  const response = await withTimeout(answered.promise, 'the response to the upload', 300_000);
  const text = (await response.toArray()).join('');
  return { status: response.statusCode, body: JSON.parse(text), digest: hash.digest('hex') };
}
