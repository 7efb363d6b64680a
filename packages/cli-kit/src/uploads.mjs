/** RPC methods for uploads, which are stored in one folder per session outside the served directory. */

import { randomUUID } from 'node:crypto';
import { lstat, mkdir, realpath, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { PathError } from './paths.mjs';

/** Largest upload, decoded (PROTOCOL.md, "Limits"). */
export const MAX_UPLOAD = 50 * 1024 * 1024;

/** A safe form of a file name: its last component, without control characters, at most 120 bytes. */
export function safeName(filename) {
  const last = filename.split(/[/\\]/).pop() ?? '';
  let name = last.replace(/[\u0000-\u001f\u007f]/g, '').replace(/^[.\s]+|[.\s]+$/g, '');
  while (Buffer.byteLength(name) > 120) {
    const dot = name.lastIndexOf('.');
    const extensionStart = dot > 0 && name.length - dot <= 16 ? dot : name.length;
    name = [...name.slice(0, extensionStart)].slice(0, -1).join('') + name.slice(extensionStart);
  }
  return name || 'file';
}

/** @param {string} folder of this session's uploads; created on the first upload, readable by this user only */
export function uploadMethods(folder) {
  return {
    async uploadFile({ filename, content } = {}) {
      if (typeof filename !== 'string' || filename === '') throw new PathError('"filename" is missing.');
      if (typeof content !== 'string') throw new PathError('"content" must be base64 text.');
      const bytes = decode(content);
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const file = path.join(folder, `${randomUUID().slice(0, 8)}-${safeName(filename)}`);
      try {
        // wx: fails if the file exists.
        await writeFile(file, bytes, { flag: 'wx', mode: 0o600 });
      } catch (error) {
        if (error.code !== 'EEXIST') await rm(file, { force: true });
        throw error.code === 'ENOSPC' ? new Error("The machine's disk is full. Free some space and try again.") : error;
      }
      return { success: true, path: file, size: bytes.length };
    },

    async deleteUploadFile({ path: requestedPath } = {}) {
      const file = await findUpload(folder, requestedPath);
      if (file === null) return { success: false, error: 'No such uploaded file.' };
      await rm(file.path);
      return { success: true };
    },
  };
}

/**
 * Finds an upload.
 * @param {string} folder
 * @param {unknown} requestedPath the path that `uploadFile` returned
 * @returns {Promise<{path: string, size: number} | null>} `size` in bytes; null unless it is a file of the folder
 */
export async function findUpload(folder, requestedPath) {
  if (typeof requestedPath !== 'string' || requestedPath.includes('\0')) return null;
  const [resolved, parent] = await Promise.all(
    [folder, path.dirname(path.resolve(folder, requestedPath))].map((name) => realpath(name).catch(() => null)),
  );
  if (resolved === null || parent !== resolved) return null;
  const file = path.join(resolved, path.basename(requestedPath));
  const info = await lstat(file).catch(() => null);
  return info?.isFile() ? { path: file, size: info.size } : null;
}

/** Decodes base64. `Buffer` skips invalid characters silently, which shows in the length of the result. */
function decode(content) {
  const padding = content.endsWith('==') ? 2 : content.endsWith('=') ? 1 : 0;
  const size = Math.floor(((content.length - padding) * 3) / 4);
  if (size > MAX_UPLOAD) throw new PathError(`The file is larger than the limit of ${MAX_UPLOAD / 1024 / 1024} MB.`);
  const bytes = Buffer.from(content, 'base64');
  if (bytes.length !== size || (content.length - padding) % 4 === 1)
    throw new PathError('"content" is not valid base64.');
  return bytes;
}
