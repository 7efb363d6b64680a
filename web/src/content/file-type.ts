/** Detects how a file can be shown. */

export type FileType = { kind: 'text'; text: string } | { kind: 'image'; type: string } | { kind: 'binary' };

const IMAGE_TYPES = new Map(
  Object.entries({
    png: 'image/png',
    jpg: 'image/jpeg',
    jpeg: 'image/jpeg',
    gif: 'image/gif',
    webp: 'image/webp',
    avif: 'image/avif',
    ico: 'image/x-icon',
  }),
);

/** Detects an image by the file name's extension, and text by its bytes. */
export function detectFileType(name: string, bytes: Uint8Array): FileType {
  const type = IMAGE_TYPES.get(name.toLowerCase().split('.').at(-1) ?? '');
  if (type) return { kind: 'image', type };
  // Like git: content with a zero byte near the start is binary.
  if (bytes.subarray(0, 8000).includes(0)) return { kind: 'binary' };
  try {
    return { kind: 'text', text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch {
    return { kind: 'binary' };
  }
}
