/** A tree of folders and files (ARIA tree pattern). A folder is fetched when it is opened. */

import { ChevronRight, FileText, Folder, MoreHorizontal } from 'lucide-preact';
import { useMemo, useRef, useState } from 'preact/hooks';
import { Virtualizer, type VirtualizerHandle } from 'virtua';
import { errorText } from '../api/errors.ts';
import { formatSize } from '../content/file-size.ts';
import { appendEntries, type DirectoryEntry, type DirectoryPage, fetchDirectory } from '../state/workspace.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { formatCount } from '../ui/format.ts';
import { ErrorNotice, Skeleton } from '../ui/loading.tsx';
import { showError } from '../ui/toasts.tsx';
import { useFetch } from '../ui/use-fetch.ts';

/** Rows of a deeper level have the indentation of this level. */
const MAX_INDENTS = 12;

interface Props {
  id: string;
  openPath: string | null;
  onOpen: (path: string) => void;
}

/** A row of the tree: an entry, or (`more`) a button that loads further entries of the folder `path`. */
interface Row {
  name: string;
  type: DirectoryEntry['type'] | 'more';
  size?: number | undefined;
  path: string;
  level: number;
  key: string;
}

/** The loaded content of the open folders, by path. The empty path is the session's directory. */
type Folders = ReadonlyMap<string, DirectoryPage | 'loading'>;

/** Opens a folder with its content. Without content, closes the folder. */
function withFolder(folders: Folders, path: string, content?: DirectoryPage | 'loading'): Folders {
  const changed = new Map(folders);
  if (content === undefined) changed.delete(path);
  else changed.set(path, content);
  return changed;
}

/** Limit on the frames to wait until a row that is scrolled into view is rendered. */
const MAX_FOCUS_FRAMES = 30;

export function FileTree({ id, openPath, onOpen }: Props) {
  const { value, error, refetch } = useFetch(id, () => fetchDirectory(id, ''));
  if (error) return <ErrorNotice text={error} onRetry={refetch} />;
  if (!value) return <Skeleton label="Loading the directory" lines={8} />;
  if (value.entries.length === 0) return <p class="empty">The directory is empty.</p>;
  return <Tree id={id} root={value} openPath={openPath} onOpen={onOpen} />;
}

function Tree({ id, root, openPath, onOpen }: Props & { root: DirectoryPage }) {
  const [folders, setFolders] = useState<Folders>(new Map([['', root]]));
  const [loadingMore, setLoadingMore] = useState<string | null>(null);
  const [focusedIndex, setFocusedIndex] = useState(0);
  /** The index of the row that had the focus last. */
  const lastFocused = useRef(0);
  /** The index of the row that gets the focus as soon as the row is rendered. */
  const nextFocused = useRef(0);
  const list = useRef<VirtualizerHandle>(null);
  const container = useRef<HTMLDivElement>(null);
  const rows = useMemo(() => buildRows('', 1, folders, loadingMore), [folders, loadingMore]);

  const toggleFolder = async ({ path }: Row) => {
    if (folders.has(path)) {
      setFolders(withFolder(folders, path));
      return;
    }
    setFolders((before) => withFolder(before, path, 'loading'));
    try {
      const entries = await fetchDirectory(id, path);
      setFolders((before) => (before.has(path) ? withFolder(before, path, entries) : before));
    } catch (error) {
      setFolders((before) => withFolder(before, path));
      showError('Could not open the folder', errorText(error));
    }
  };
  /** Focuses a row as soon as the list has rendered the row, which may take some frames. */
  const focusWhenVisible = (index: number, frames: number) => {
    requestAnimationFrame(() => {
      if (nextFocused.current !== index) return;
      const row = container.current?.querySelector<HTMLElement>(`[data-index="${index}"]`);
      row?.focus();
      if (document.activeElement !== row && frames > 0) focusWhenVisible(index, frames - 1);
    });
  };
  const loadMore = async ({ path }: Row, index: number) => {
    const loaded = folders.get(path);
    if (loadingMore !== null || loaded === undefined || loaded === 'loading' || loaded.more === null) return;
    setLoadingMore(path);
    try {
      const { entries, more } = await fetchDirectory(id, path, loaded.entries.length);
      setFolders((before) =>
        before.get(path) === loaded ? withFolder(before, path, { entries: appendEntries(loaded.entries, entries), more }) : before,
      );
      // The first new entry replaces the focused row.
      nextFocused.current = index;
      focusWhenVisible(index, MAX_FOCUS_FRAMES);
    } catch (error) {
      showError('Could not list more files', errorText(error));
    }
    setLoadingMore(null);
  };
  const activate = (row: Row, index: number) => {
    if (row.type === 'directory') void toggleFolder(row);
    else if (row.type === 'more') void loadMore(row, index);
    else onOpen(row.path);
  };
  const focusRow = (index: number) => {
    const target = Math.max(0, Math.min(rows.length - 1, index));
    nextFocused.current = target;
    setFocusedIndex(target);
    list.current?.scrollToIndex(target, { align: 'nearest' });
    focusWhenVisible(target, MAX_FOCUS_FRAMES);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const row = rows[focusedIndex];
    if (!row) return;
    const isExpanded = row.type === 'directory' && folders.has(row.path);
    const parent = rows.findLastIndex(({ level }, index) => index < focusedIndex && level < row.level);
    if (event.key === 'ArrowDown') focusRow(focusedIndex + 1);
    else if (event.key === 'ArrowUp') focusRow(focusedIndex - 1);
    else if (event.key === 'Home') focusRow(0);
    else if (event.key === 'End') focusRow(rows.length - 1);
    else if (event.key === 'Enter' || event.key === ' ') activate(row, focusedIndex);
    else if (event.key === 'ArrowRight' && row.type === 'directory') isExpanded ? focusRow(focusedIndex + 1) : void toggleFolder(row);
    else if (event.key === 'ArrowLeft') isExpanded ? void toggleFolder(row) : parent >= 0 && focusRow(parent);
    else return;
    event.preventDefault();
  };
  return (
    <div class="tree" role="tree" aria-label="Files" ref={container} onKeyDown={onKeyDown}>
      {/* The focused row stays in the document while it is out of view. Otherwise no key would reach the tree. */}
      <Virtualizer
        ref={list}
        data={rows}
        scrollRef={container}
        keepMounted={[lastFocused.current, focusedIndex].filter((index) => index < rows.length)}
      >
        {(row, index) => (
          <div
            key={row.key}
            class={row.type === 'more' ? 'tree-row more' : 'tree-row'}
            role="treeitem"
            data-index={index}
            style={{ paddingInlineStart: `${16 * Math.min(row.level, MAX_INDENTS) - 8}px` }}
            aria-level={row.level}
            aria-expanded={row.type === 'directory' ? folders.has(row.path) : undefined}
            aria-selected={row.type === 'file' && row.path === openPath}
            tabIndex={index === focusedIndex ? 0 : -1}
            onFocus={() => {
              lastFocused.current = index;
              nextFocused.current = index;
              setFocusedIndex(index);
            }}
            onClick={() => activate(row, index)}
          >
            {row.type === 'directory' ? <ChevronRight size={16} class="chevron" /> : <span class="tree-gap" />}
            {row.type === 'directory' ? <Folder size={16} /> : row.type === 'more' ? <MoreHorizontal size={16} /> : <FileText size={16} />}
            <span class={row.type === 'more' ? undefined : 'ellipsis'}>
              <EscapedText text={row.name} />
            </span>
            {row.size !== undefined && <span class="muted tree-size">{formatSize(row.size)}</span>}
          </div>
        )}
      </Virtualizer>
    </div>
  );
}

function buildRows(folder: string, level: number, folders: Folders, loadingMore: string | null): Row[] {
  const content = folders.get(folder);
  if (content === undefined || content === 'loading') return [];
  const rows = content.entries.flatMap(({ name, type, size }): Row[] => {
    const path = folder === '' ? name : `${folder}/${name}`;
    return [
      { name, type, size, path, level, key: path },
      ...(type === 'directory' ? buildRows(path, level + 1, folders, loadingMore) : []),
    ];
  });
  if (content.more === 0) return rows;
  const name = folder === loadingMore ? 'Loading …' : describeMore(content);
  // Unique, because the path of an entry never ends with a slash.
  return [...rows, { name, type: 'more', path: folder, level, key: `${folder}/` }];
}

function describeMore({ entries, more }: DirectoryPage): string {
  const shown = `The first ${formatCount(entries.length)} are listed`;
  return more === null ? `${shown}. Search for others by name.` : `${shown}. Show more: ${formatCount(more)} follow.`;
}
