/** RPC methods for uploads. The uploads of each session are in one folder, outside of the served directory. */

import { randomUUID } from 'node:crypto';
import { copyFile, link, lstat, mkdir, open, readdir, realpath, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { PathError } from './paths.mjs';

/** Largest upload in one call, decoded (PROTOCOL.md, "Limits"). */
export const MAX_UPLOAD_BYTES = 50 * 1024 * 1024;

/** Returns a safe form of a file name: the last component of the path, without control characters, at most 120 bytes. */
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

/** The names of temporary files. */
const TEMPORARY_FILE = /^\..*\.part$/;

/** A file that arrives in chunks: a temporary file, which gets its final name with the last chunk. */
class PartialFile {
  size = 0;

  constructor(folder) {
    this.folder = folder;
    this.path = path.join(folder, `.${randomUUID()}.part`);
  }

  /** Writes a chunk. The first chunk creates the file. */
  async write(bytes) {
    if (this.file === undefined) {
      await mkdir(this.folder, { recursive: true, mode: 0o700 });
      this.file = await open(this.path, 'wx', 0o600);
    }
    await this.file.appendFile(bytes);
    this.size += bytes.length;
  }

  /** Gives the complete file its final name. Returns the path of the file. */
  async finish(filename) {
    await this.#close();
    const target = uniquePath(this.folder, filename);
    await rename(this.path, target);
    return target;
  }

  async discard() {
    await this.#close().catch(() => {});
    await rm(this.path, { force: true });
  }

  async #close() {
    const { file } = this;
    this.file = undefined;
    await file?.close();
  }
}

const uniquePath = (folder, filename) => path.join(folder, `${randomUUID().slice(0, 8)}-${safeName(filename)}`);

/** Converts the error of a full disk to a text for the user. Returns any other error unchanged. */
function toUserError(error) {
  return error.code === 'ENOSPC' ? new Error("The machine's disk is full. Free some space and try again.") : error;
}

function requireFilename(filename) {
  if (typeof filename !== 'string' || filename === '') throw new PathError('"filename" is missing.');
}

/**
 * A piece of an upload. `content`: base64; `filename`: only in the last piece.
 * @typedef {{uploadId?: string, offset?: number, content?: string, last?: boolean, filename?: string}} Chunk
 */

/**
 * @param {string} folder the folder of this session's uploads; created on the first upload, readable by this user only
 * @returns the RPC methods; and `discardPartialFiles`, which must be called when the connection is lost, because the uploads cannot continue
 */
export function createUploads(folder) {
  /** By upload id. @type {Map<string, PartialFile>} */
  const partialFiles = new Map();

  async function discard(uploadId) {
    const file = partialFiles.get(uploadId);
    partialFiles.delete(uploadId);
    await file?.discard();
  }

  /** @param {Chunk} chunk */
  async function receive({ uploadId, offset, content, last, filename }) {
    if (offset === 0 && !partialFiles.has(uploadId)) partialFiles.set(uploadId, new PartialFile(folder));
    const file = partialFiles.get(uploadId);
    if (file === undefined) throw new Error('The upload is unknown: it was canceled, or its beginning is missing. Upload the file again.');
    if (offset !== file.size) throw new Error(`The chunk has the offset ${offset}, but ${file.size} was expected. Upload the file again.`);
    if (last) requireFilename(filename);
    await file.write(decode(content));
    if (!last) return { success: true };
    const target = await file.finish(filename);
    partialFiles.delete(uploadId);
    return { success: true, path: target, size: file.size };
  }

  const methods = {
    /** @param {{filename?: string, content?: string, mimeType?: string}} [params] `content`: base64 */
    async uploadFile({ filename, content } = {}) {
      requireFilename(filename);
      const bytes = decode(content);
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const file = uniquePath(folder, filename);
      try {
        // wx: fails if the file exists.
        await writeFile(file, bytes, { flag: 'wx', mode: 0o600 });
      } catch (error) {
        if (error.code !== 'EEXIST') await rm(file, { force: true });
        throw toUserError(error);
      }
      return { success: true, path: file, size: bytes.length };
    },

    /** @param {Chunk & {abort?: boolean}} [params] */
    async uploadChunk({ abort, ...chunk } = {}) {
      if (typeof chunk.uploadId !== 'string') throw new PathError('"uploadId" is missing.');
      if (abort) {
        await discard(chunk.uploadId);
        return { success: true };
      }
      try {
        return await receive(chunk);
      } catch (error) {
        await discard(chunk.uploadId);
        throw toUserError(error);
      }
    },

    /** @param {{path?: string}} [params] */
    async deleteUploadFile({ path: requestedPath } = {}) {
      const file = await findUpload(folder, requestedPath);
      if (file === null) return { success: false, error: 'No such uploaded file.' };
      await rm(file.path);
      return { success: true };
    },
  };

  /** Deletes all temporary files, including those of an earlier process that was killed. */
  async function discardPartialFiles() {
    await Promise.all([...partialFiles.keys()].map(discard));
    const names = await readdir(folder).catch(() => []);
    const current = new Set([...partialFiles.values()].map((file) => file.path));
    const files = names.filter((name) => TEMPORARY_FILE.test(name)).map((name) => path.join(folder, name));
    await Promise.all(files.filter((file) => !current.has(file)).map((file) => rm(file, { force: true })));
  }

  return { methods, discardPartialFiles };
}

/**
 * Finds an upload.
 * @param {string} folder
 * @param {unknown} requestedPath the path that `uploadFile` returned
 * @returns {Promise<{path: string, size: number} | null>} `size` in bytes; null if the path is not a file in the folder
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

/**
 * Copies an upload of another session to the folder of a session. The copy shares the disk space of the original where possible, and
 * remains when the original is deleted.
 * @param {string} source the folder of the other session
 * @param {string} folder the folder of the session
 * @param {unknown} requestedPath
 * @returns {Promise<string | null>} the path of the copy; null if the path is not a file in `source`
 */
export async function copyUpload(source, folder, requestedPath) {
  const upload = await findUpload(source, requestedPath);
  if (!upload) return null;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const copy = path.join(folder, path.basename(upload.path));
  await link(upload.path, copy).catch(async (error) => {
    // The copy already exists if an earlier copy of the session was interrupted and is now repeated.
    if (error.code !== 'EEXIST') await copyFile(upload.path, copy);
  });
  return copy;
}

/** Decodes base64. `Buffer` skips invalid characters silently, so the length of the result is checked. */
function decode(content) {
  if (typeof content !== 'string') throw new PathError('"content" must be base64 text.');
  const padding = content.endsWith('==') ? 2 : content.endsWith('=') ? 1 : 0;
  const size = Math.floor(((content.length - padding) * 3) / 4);
  if (size > MAX_UPLOAD_BYTES) throw new PathError(`The file is larger than the limit of ${MAX_UPLOAD_BYTES / 1024 / 1024} MB.`);
  const bytes = Buffer.from(content, 'base64');
  if (bytes.length !== size || (content.length - padding) % 4 === 1) throw new PathError('"content" is not valid base64.');
  return bytes;
}
