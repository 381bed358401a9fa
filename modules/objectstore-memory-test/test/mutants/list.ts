import type { ObjectInfo, OpOptions } from '@nexus/objectstore'
import { mutant, type Mutant, pause } from './mutant.ts'

const PAGE = 20

/** Faults of `list`. */
export const listMutants: readonly Mutant[] = [
  mutant(
    'list gives keys without the prefix',
    ['list gives full keys with their sizes', 'put is seen at once by list and hydrate'],
    (healthy) => ({
      list: async (prefix: string) => {
        const cut = prefix === '' ? 0 : prefix.length + 1
        return (await healthy.list(prefix)).map((object) => ({ ...object, key: object.key.slice(cut) }))
      },
    }),
  ),
  mutant('list gives sizes of 0', ['list gives full keys with their sizes'], (healthy) => ({
    list: async (prefix: string) => (await healthy.list(prefix)).map((object) => ({ ...object, size: 0 })),
  })),
  mutant('list gives modTime as text', ['list gives full keys with their sizes'], (healthy) => ({
    list: async (prefix: string) =>
      (await healthy.list(prefix)).map((object) => ({ ...object, modTime: object.modTime?.toISOString() })),
  })),
  mutant('list gives modTime in seconds', ['list gives full keys with their sizes'], (healthy) => ({
    list: async (prefix: string) =>
      (await healthy.list(prefix)).map((object) => ({ ...object, modTime: new Date(Date.now() / 1000) })),
  })),
  mutant(
    'list matches the raw prefix',
    [
      'list matches whole segments',
      'list leaves out the object at the prefix itself',
      'list of a prefix with nothing under it is empty',
    ],
    (healthy) => ({
      list: async (prefix: string) => (await healthy.list('')).filter(({ key }) => key.startsWith(prefix)),
    }),
  ),
  mutant('list shows the object at the prefix', ['list leaves out the object at the prefix itself'], (healthy) => ({
    list: async (prefix: string) =>
      (await healthy.list('')).filter(({ key }) => key === prefix || `${key}/`.startsWith(prefix && `${prefix}/`)),
  })),
  mutant(
    'list stops at the next slash',
    ['list of the empty prefix gives everything', 'list gives full keys with their sizes'],
    (healthy) => ({
      list: async (prefix: string) => {
        const below = prefix === '' ? 0 : prefix.length + 1
        return (await healthy.list(prefix)).filter(({ key }) => !key.slice(below).includes('/'))
      },
    }),
  ),
  mutant(
    'an empty prefix means nothing',
    ['list of the empty prefix gives everything', 'hydrate of the empty prefix gives everything'],
    (healthy) => ({
      list: async (prefix: string) => (prefix === '' ? [] : healthy.list(prefix)),
      hydrate: async (prefix: string, directory: string, options: OpOptions) =>
        prefix === '' ? undefined : healthy.hydrate(prefix, directory, options),
    }),
  ),
  mutant(
    'a prefix with nothing under it is an error',
    ['list of a prefix with nothing under it is empty', 'hydrate of a prefix with nothing under it succeeds'],
    (healthy) => {
      const check = async (prefix: string): Promise<void> => {
        if ((await healthy.list(prefix)).length === 0) throw new Error('404 no such prefix')
      }
      return {
        list: async (prefix: string) => {
          await check(prefix)
          return healthy.list(prefix)
        },
        hydrate: async (prefix: string, directory: string, options: OpOptions) => {
          await check(prefix)
          await healthy.hydrate(prefix, directory, options)
        },
      }
    },
  ),
  mutant(
    'list remembers its answers',
    ['list is current after every change', 'put is seen at once by list and hydrate'],
    (healthy) => {
      const answers = new Map<string, ObjectInfo[]>()
      return {
        list: async (prefix: string) => {
          const answer = answers.get(prefix) ?? (await healthy.list(prefix))
          answers.set(prefix, answer)
          return answer
        },
      }
    },
  ),
  mutant(
    'list shows what was deleted',
    ['list is current after every change', 'delete removes the object'],
    (healthy) => {
      const deleted: ObjectInfo[] = []
      return {
        delete: async (key: string) => {
          deleted.push({ key, size: 1 })
          await healthy.delete(key)
        },
        list: async (prefix: string) => [
          ...(await healthy.list(prefix)),
          ...deleted.filter(({ key }) => key.startsWith(`${prefix}/`)),
        ],
      }
    },
  ),
  mutant('list gives the first page', ['list and hydrate are complete beyond one page'], (healthy) => ({
    list: async (prefix: string) => (await healthy.list(prefix)).slice(0, PAGE),
  })),
  mutant('list repeats the last key of a page', ['list and hydrate are complete beyond one page'], (healthy) => ({
    list: async (prefix: string) => {
      const all = await healthy.list(prefix)
      return all.flatMap((object, i) => (i % PAGE === PAGE - 1 ? [object, object] : [object]))
    },
  })),
  mutant('list shows folder placeholders', ['list leaves out folder placeholders'], (healthy) => ({
    list: async (prefix: string) =>
      [...healthy.objects]
        .filter(([key]) => prefix === '' || key.startsWith(`${prefix}/`))
        .map(([key, { bytes }]) => ({ key, size: bytes.length })),
  })),
  mutant(
    'list walks by position while others delete',
    ['listings during changes keep what does not change'],
    (healthy) => ({
      list: async (prefix: string) => {
        const found = new Map<string, ObjectInfo>()
        for (let at = 0; ; at += 3) {
          const page = (await healthy.list(prefix)).toSorted((a, b) => (a.key < b.key ? -1 : 1)).slice(at, at + 3)
          if (page.length === 0) return [...found.values()]
          for (const object of page) found.set(object.key, object)
          await pause()
        }
      },
    }),
  ),
]
