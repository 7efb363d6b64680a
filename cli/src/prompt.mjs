/** The content of a prompt: the text of a user's message, and its attachments. */

import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { findUpload } from 'session-gateway-cli-kit/uploads';

/** Types of pictures that models take, by the extension of the file. */
const PICTURES = { '.png': 'image/png', '.jpg': 'image/jpeg', '.jpeg': 'image/jpeg', '.gif': 'image/gif', '.webp': 'image/webp' };

/** A larger picture is sent as a link: the agent's connection has a limit of 32 MiB for a message. */
const MAX_PICTURE = 10 * 1024 * 1024;

/**
 * @param {{text?: string, attachments?: {path: string, filename?: string}[]}} message of the user
 * @param {{uploads: string, canTakeImages: boolean}} options `uploads`: the folder of the session's uploads
 * @returns {Promise<{blocks: object[], ignored: string[]}>} `ignored`: names of attachments that are no uploads of this
 *   session
 */
export async function toPrompt({ text = '', attachments = [] }, { uploads, canTakeImages }) {
  const blocks = text === '' ? [] : [{ type: 'text', text }];
  const ignored = [];
  for (const { path: wanted, filename } of attachments) {
    const file = await findUpload(uploads, wanted);
    const name = filename ?? path.basename(wanted);
    if (!file) ignored.push(name);
    else blocks.push(await toBlock(file, name, canTakeImages));
  }
  return { blocks, ignored };
}

async function toBlock({ path: file, size }, name, canTakeImages) {
  const mimeType = PICTURES[path.extname(file).toLowerCase()];
  if (canTakeImages && mimeType && size <= MAX_PICTURE) {
    return { type: 'image', mimeType, data: (await readFile(file)).toString('base64') };
  }
  return { type: 'resource_link', name, uri: pathToFileURL(file).href, size, ...(mimeType ? { mimeType } : {}) };
}
