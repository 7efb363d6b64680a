/** The content of a prompt: the text of a user's message, and its attachments. */

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { findUpload } from 'session-gateway-cli-kit/uploads';

/** Types of pictures that models take, by the extension of the file. */
const PICTURES = { '.png': 'image/png', '.jpg': 'image/jpeg', '.jpeg': 'image/jpeg', '.gif': 'image/gif', '.webp': 'image/webp' };

/** A larger picture is sent as a link. Models refuse pictures above 5 MB of base64, also in every later message of the conversation. */
const MAX_PICTURE_BYTES = 3.75 * 1024 * 1024;

/** A larger file is only named in the text of the prompt, without its content. */
const MAX_INLINE_BYTES = 64 * 1024;

/**
 * @param {{text?: string, attachments?: {path: string, filename?: string}[]}} message of the user
 * @param {{uploads: string, canTakeImages: boolean, needsInlineFiles?: boolean}} options `uploads`: the folder of the session's
 *   uploads; `needsInlineFiles`: whether the text of the prompt must contain the files
 * @returns {Promise<{blocks: object[], ignored: string[]}>} `ignored`: names of attachments that are not uploads of this
 *   session
 */
export async function toPrompt({ text = '', attachments = [] }, { uploads, canTakeImages, needsInlineFiles = false }) {
  /** @type {object[]} */
  const blocks = text.trim() === '' ? [] : [{ type: 'text', text }];
  const ignored = [];
  for (const { path: requestedPath, filename } of attachments) {
    const file = await findUpload(uploads, requestedPath);
    const name = filename ?? path.basename(requestedPath);
    if (!file) ignored.push(name);
    else blocks.push(...(await toBlocks({ ...file, name }, canTakeImages, needsInlineFiles)));
  }
  return { blocks, ignored };
}

async function toBlocks({ path: file, size, name }, canTakeImages, needsInlineFiles) {
  const mimeType = PICTURES[path.extname(file).toLowerCase()];
  const canSendPicture = canTakeImages && mimeType && size <= MAX_PICTURE_BYTES;
  const picture = canSendPicture ? [{ type: 'image', mimeType, data: (await readFile(file)).toString('base64') }] : [];
  if (needsInlineFiles) return [{ type: 'text', text: await describeFile({ path: file, size, name, mayBeText: !mimeType }) }, ...picture];
  if (canSendPicture) return picture;
  return [{ type: 'resource_link', name, uri: pathToFileURL(file).href, size, ...(mimeType ? { mimeType } : {}) }];
}

/** Describes a file in the text of a prompt: its name, its path, and the content of a short text file. */
async function describeFile({ path: file, size, name, mayBeText }) {
  const label = JSON.stringify(name);
  const head = `\n\nAttached file ${label}, stored at ${file}`;
  const content = mayBeText && size <= MAX_INLINE_BYTES ? decodeText(await readFile(file)) : null;
  return content === null ? `${head}\n` : `${head}, with this content:\n\n${content}\n\nEnd of ${label}.\n`;
}

/** Decodes UTF-8. Returns null for other content. */
function decodeText(bytes) {
  try {
    return bytes.includes(0) ? null : new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}
