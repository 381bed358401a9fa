import type { BucketContext } from './object/bucket-context.ts'
import type { Call } from './call.ts'
import { unless } from './disk/file-system.ts'
import { ASIDE_DIRECTORY, TEMP_DIRECTORY } from './keys.ts'
import { findDirectory } from './object/object-place.ts'

/** One object of the tree. */
export interface FoundObject {
  key: string
  sizeBytes: number
  /** When the object got its name, in milliseconds: the rename that stores it moves the change time, not the modification time. */
  storedAtMs: number
}

/** What a walk of the tree found. */
export interface Listing {
  objects: FoundObject[]
  /** Names that are not UTF-8, and so no keys, with their bytes shown as U+FFFD. */
  unreadable: string[]
}

interface Visit {
  path: string
  /** With a trailing `/`, or empty. */
  keyPrefix: string
}

/** Objects found between two reports. */
const REPORT_EVERY = 1000

/**
 * Every object below a prefix. Only regular files in real directories count: links, FIFOs, sockets and devices are not
 * objects and are not followed. An object that doesn't change meanwhile is found exactly once.
 */
export async function listObjects(
  context: BucketContext,
  segments: readonly string[],
  keyPrefix: string,
  call: Call,
): Promise<Listing> {
  context.identity.check()
  call.signal.throwIfAborted()
  const listing: Listing = { objects: [], unreadable: [] }
  const root = findDirectory(context, segments)
  if (root === undefined) {
    context.identity.check()
    return listing
  }
  let reported = 0
  const stack: Visit[] = [{ path: root, keyPrefix: keyPrefix === '' ? '' : `${keyPrefix}/` }]
  for (let visit = stack.pop(); visit !== undefined; visit = stack.pop()) {
    visitDirectory(context, visit, listing, stack)
    const found = listing.objects.length
    if (found - reported >= REPORT_EVERY) reported = found
    await call.progress({ objects: reported, bytes: 0 })
  }
  return listing
}

/** The names one level below a prefix: of objects, and of directories, which may have lost their last object. */
export async function listNames(context: BucketContext, segments: readonly string[], call: Call): Promise<string[]> {
  context.identity.check()
  call.signal.throwIfAborted()
  const root = findDirectory(context, segments)
  if (root === undefined) {
    context.identity.check()
    return []
  }
  const names = new Set<string>()
  for (const entry of entriesOf(context, root, () => undefined)) {
    const isOurs = entry.name === TEMP_DIRECTORY || entry.name === ASIDE_DIRECTORY
    if (!isOurs && (entry.isFile() || entry.isDirectory())) names.add(entry.name)
  }
  return [...names]
}

function visitDirectory(context: BucketContext, { path, keyPrefix }: Visit, listing: Listing, stack: Visit[]): void {
  const { fs } = context
  const files: string[] = []
  for (const entry of entriesOf(context, path, (broken) => listing.unreadable.push(keyPrefix + broken))) {
    const { name } = entry
    if (entry.isFile()) files.push(name)
    else if (entry.isDirectory() && name !== TEMP_DIRECTORY && name !== ASIDE_DIRECTORY) {
      stack.push({ path: `${path}/${name}`, keyPrefix: `${keyPrefix + name}/` })
    }
  }
  // Looked at after the directory itself, whether that had an entry for it or not: an object leaves its plain path only
  // once it is aside, so it is seen here or there.
  const aside = `${path}/${ASIDE_DIRECTORY}`
  const hasAside = fs.lstatSync(aside, { throwIfNoEntry: false })?.isDirectory() === true
  const asideNames = new Set(hasAside ? namesIn(context, aside) : [])
  const add = (name: string, file: string): boolean => {
    const stat = fs.lstatSync(file, { throwIfNoEntry: false })
    if (stat?.isFile() !== true) return false
    listing.objects.push({
      key: keyPrefix + name,
      sizeBytes: stat.size,
      storedAtMs: Math.max(stat.mtimeMs, stat.ctimeMs),
    })
    return true
  }
  for (const name of files) {
    // What is aside is the object; a file at the plain path is then a leftover.
    if (!asideNames.has(name) && !add(name, `${path}/${name}`)) asideNames.add(name)
  }
  for (const name of asideNames) add(name, `${aside}/${name}`)
}

function namesIn({ fs }: BucketContext, path: string): string[] {
  return unless(['ENOENT', 'ENOTDIR'], () => fs.readdirSync(path)) ?? []
}

interface Entry {
  name: string
  isFile(): boolean
  isDirectory(): boolean
}

/** What is in a directory. Names that are not UTF-8 are told apart and left out. */
function entriesOf({ fs }: BucketContext, path: string, onBroken: (shown: string) => void): Entry[] {
  const gone = ['ENOENT', 'ENOTDIR']
  const entries: Entry[] = unless(gone, () => fs.readdirSync(path, { withFileTypes: true })) ?? []
  if (!entries.some(({ name }) => name.includes('\ufffd'))) return entries
  // A broken name decodes to U+FFFD, which a sound name may hold too, even the very same: only the bytes tell.
  const sound: Entry[] = entries.filter(({ name }) => !name.includes('\ufffd'))
  for (const bytes of unless(gone, () => fs.readdirSync(path, { encoding: 'buffer' })) ?? []) {
    const name = bytes.toString()
    if (!name.includes('\ufffd')) continue
    const stat = fs.lstatSync(`${path}/${name}`, { throwIfNoEntry: false })
    if (!Buffer.from(name).equals(bytes)) onBroken(name)
    else if (stat !== undefined)
      sound.push({ name, isFile: () => stat.isFile(), isDirectory: () => stat.isDirectory() })
  }
  return sound
}
