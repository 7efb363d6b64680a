// The changes between two versions, from CHANGELOG.md.

import { atLeast } from '../../lib/versions.mjs';

/** The heading of the changes since the newest version. */
const UNRELEASED = 'Unreleased';

/**
 * Returns the sections of the versions after `from`, up to `to`, newest first.
 * @param {string} changelog
 * @param {{from: string, to: string, isReleased: boolean}} range `isReleased`: whether `to` has no unreleased changes
 * @returns {string[]} each with its heading
 */
export function changesBetween(changelog, { from, to, isReleased }) {
  const sections = changelog.split(/^(?=## )/m).slice(1);
  return sections.flatMap((section) => {
    const version = /^## \[([^\]]+)\]/.exec(section)?.[1] ?? '';
    const [, ...lines] = section.trim().split('\n');
    if (!lines.some((line) => line.trim() !== '')) return [];
    const isIncluded = version === UNRELEASED ? !isReleased : !atLeast(from, version) && atLeast(to, version);
    return isIncluded ? [section.trim()] : [];
  });
}
