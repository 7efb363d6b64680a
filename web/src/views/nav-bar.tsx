/** The navigation between the main views: at the bottom on a phone, a column on wide screens. */

import { Archive, Bot, Plus, Server, Settings } from 'lucide-preact';
import { Link, useRoute } from 'wouter-preact';
import { waitingCount } from '../state/store.ts';

const LINKS = [
  { to: '/', label: 'Sessions', Icon: Bot },
  { to: '/machines', label: 'Machines', Icon: Server },
  { to: '/new', label: 'New', Icon: Plus },
  { to: '/archive', label: 'Archive', Icon: Archive },
  { to: '/settings', label: 'Settings', Icon: Settings },
];

export function NavBar() {
  return (
    <nav class="nav-bar" aria-label="Views">
      {LINKS.map((link) => (
        <NavLink key={link.to} {...link} />
      ))}
    </nav>
  );
}

function NavLink({ to, label, Icon }: (typeof LINKS)[number]) {
  const [isCurrent] = useRoute(to === '/' ? to : `${to}/*?`);
  return (
    <Link href={to} class={to === '/new' ? 'nav-link new' : 'nav-link'} aria-current={isCurrent ? 'page' : undefined}>
      <Icon size={20} />
      <span>{label}</span>
      {to === '/' && <WaitingBadge />}
    </Link>
  );
}

/** The number of items that wait for the user. */
function WaitingBadge() {
  const count = waitingCount.value;
  return count === 0 ? null : (
    <span class="badge">
      {count > 99 ? '99+' : count}
      <span class="visually-hidden"> waiting</span>
    </span>
  );
}
