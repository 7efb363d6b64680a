// The README of a package: the package has only some of the files that the page links and shows.

/**
 * Removes the pictures and the links whose files are missing. The text of a link remains.
 * @param {string} markdown
 * @param {(file: string) => boolean} exists whether the package has a file, by its path relative to the page
 */
export function withoutMissingFiles(markdown, exists) {
  const isMissing = (/** @type {string} */ target) => !/^(#|[a-z]+:)/.test(target) && !exists(target.split('#')[0]);
  return markdown
    .replace(/<img[^>]* src="([^"]*)"[^>]*>/g, (picture, target) => (isMissing(target) ? '' : picture))
    .replace(/<p[^>]*>\s*<\/p>\n*/g, '')
    .replace(/!\[[^\]]*\]\(([^)\s]+)\)/g, (picture, target) => (isMissing(target) ? '' : picture))
    .replace(/(?<!!)\[([^\]]*)\]\(([^)\s]+)\)/g, (link, text, target) => (isMissing(target) ? text : link));
}
