/** A tree of folders and files (ARIA tree pattern). A folder is fetched when it is opened. */

import { ChevronRight, FileText, Folder } from 'lucide-preact';
import { useRef, useState } from 'preact/hooks';
import { Virtualizer, type VirtualizerHandle } from 'virtua';
import { errorText } from '../api/errors.ts';
import { formatSize } from '../content/file-size.ts';
import { type DirectoryEntry, fetchDirectory } from '../state/workspace.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { ErrorNotice, Skeleton } from '../ui/loading.tsx';
import { showError } from '../ui/toasts.tsx';
import { useFetch } from '../ui/use-fetch.ts';

interface Props {
  id: string;
  openPath: string | null;
  onOpen: (path: string) => void;
}

/** A row of the tree. */
interface Row extends DirectoryEntry {
  path: string;
  level: number;
}

/** The content of the open folders by path. */
type Folders = ReadonlyMap<string, DirectoryEntry[] | 'loading'>;

/** Opens a folder with this content, or closes it without one. */
function withFolder(folders: Folders, path: string, content?: DirectoryEntry[] | 'loading'): Folders {
  const next = new Map(folders);
  if (content === undefined) next.delete(path);
  else next.set(path, content);
  return next;
}

export function FileTree({ id, openPath, onOpen }: Props) {
  const { value, error, refetch } = useFetch(id, () => fetchDirectory(id, ''));
  if (error) return <ErrorNotice text={error} onRetry={refetch} />;
  if (!value) return <Skeleton label="Loading the directory" lines={8} />;
  if (value.length === 0) return <p class="empty">The directory is empty.</p>;
  return <Tree id={id} root={value} openPath={openPath} onOpen={onOpen} />;
}

function Tree({ id, root, openPath, onOpen }: Props & { root: DirectoryEntry[] }) {
  const [folders, setFolders] = useState<Folders>(new Map());
  const [focusedIndex, setFocusedIndex] = useState(0);
  const list = useRef<VirtualizerHandle>(null);
  const container = useRef<HTMLDivElement>(null);
  const rows = buildRows(root, '', 1, folders);

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
  const activate = (row: Row) => (row.type === 'directory' ? void toggleFolder(row) : onOpen(row.path));
  const focusRow = (index: number) => {
    const target = Math.max(0, Math.min(rows.length - 1, index));
    setFocusedIndex(target);
    list.current?.scrollToIndex(target, { align: 'nearest' });
    requestAnimationFrame(() => container.current?.querySelector<HTMLElement>(`[data-index="${target}"]`)?.focus());
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const row = rows[focusedIndex];
    if (!row) return;
    const isExpanded = folders.has(row.path);
    const parent = rows.findLastIndex(({ level }, index) => index < focusedIndex && level < row.level);
    if (event.key === 'ArrowDown') focusRow(focusedIndex + 1);
    else if (event.key === 'ArrowUp') focusRow(focusedIndex - 1);
    else if (event.key === 'Home') focusRow(0);
    else if (event.key === 'End') focusRow(rows.length - 1);
    else if (event.key === 'Enter' || event.key === ' ') activate(row);
    else if (event.key === 'ArrowRight' && row.type === 'directory') isExpanded ? focusRow(focusedIndex + 1) : void toggleFolder(row);
    else if (event.key === 'ArrowLeft') isExpanded ? void toggleFolder(row) : parent >= 0 && focusRow(parent);
    else return;
    event.preventDefault();
  };
  return (
    <div class="tree" role="tree" aria-label="Files" ref={container} onKeyDown={onKeyDown}>
      <Virtualizer ref={list} scrollRef={container}>
        {rows.map((row, index) => (
          <div
            key={row.path}
            class="tree-row"
            role="treeitem"
            data-index={index}
            data-level={Math.min(row.level, 12)}
            aria-level={row.level}
            aria-expanded={row.type === 'directory' ? folders.has(row.path) : undefined}
            aria-selected={row.path === openPath}
            tabIndex={index === focusedIndex ? 0 : -1}
            onFocus={() => setFocusedIndex(index)}
            onClick={() => activate(row)}
          >
            {row.type === 'directory' ? <ChevronRight size={16} aria-hidden class="chevron" /> : <span class="tree-gap" />}
            {row.type === 'directory' ? <Folder size={16} aria-hidden /> : <FileText size={16} aria-hidden />}
            <span class="ellipsis">
              <EscapedText text={row.name} />
            </span>
            {row.size !== undefined && <span class="muted tree-size">{formatSize(row.size)}</span>}
          </div>
        ))}
      </Virtualizer>
    </div>
  );
}

function buildRows(entries: DirectoryEntry[], folder: string, level: number, folders: Folders): Row[] {
  return entries.flatMap((entry) => {
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
    const content = folders.get(path);
    const row = { ...entry, path, level };
    return Array.isArray(content) ? [row, ...buildRows(content, path, level + 1, folders)] : [row];
  });
}
