// SPDX-License-Identifier: GPL-2.0

//! The macros of the kernel crate.

#[macro_export]
macro_rules! try_pin_init {
    ($(&$this:ident in)? $ty:ident {$($fields:tt)*}) => {
        $crate::try_pin_init!($(&$this in)? $ty {$($fields)*}? $crate::error::Error)
    };
    ($(&$this:ident in)? $ty:ident {$($fields:tt)*}? $error:ty) => {
        ::pin_init::pin_init!($(&$this in)? $ty {$($fields)*}? $error)
    };
}

#[macro_export]
macro_rules! try_init {
    ($ty:ident {$($fields:tt)*}? $error:ty) => {
        ::pin_init::init!($ty {$($fields)*}? $error)
    };
}

#[macro_export]
macro_rules! fmt_arguments {
    ($($args:tt)*) => { ::core::format_args!($($args)*) };
}

#[macro_export]
macro_rules! pr_info {
    ($($args:tt)*) => { $crate::sim::print("info", ::core::format_args!($($args)*)) };
}

#[macro_export]
macro_rules! pr_warn {
    ($($args:tt)*) => { $crate::sim::print("warn", ::core::format_args!($($args)*)) };
}

#[macro_export]
macro_rules! pr_err {
    ($($args:tt)*) => { $crate::sim::print("err", ::core::format_args!($($args)*)) };
}

#[macro_export]
macro_rules! pr_warn_once {
    ($($args:tt)*) => { $crate::pr_warn!($($args)*) };
}

/// Trace events are on if the simulator prints its events.
#[macro_export]
macro_rules! static_branch_unlikely {
    ($($key:tt)*) => {
        $crate::sim::is_tracing()
    };
}

#[macro_export]
macro_rules! new_spinlock {
    ($value:expr, $name:literal) => {
        $crate::sync::SpinLock::new($value, $name)
    };
}

#[macro_export]
macro_rules! new_mutex {
    ($value:expr, $name:literal) => {
        $crate::sync::Mutex::new($value, $name)
    };
}

#[macro_export]
macro_rules! new_work {
    ($name:literal) => {
        $crate::workqueue::Work::new($name)
    };
}

#[macro_export]
macro_rules! impl_has_work {
    (impl$({$($generics:tt)*})? HasWork<Self> for $self:ty { self.$field:ident }) => {
        unsafe impl$(<$($generics)*>)? $crate::workqueue::HasWork for $self {
            fn work(&self) -> &$crate::workqueue::Work<Self> {
                &self.$field
            }
        }
    };
}

#[macro_export]
macro_rules! seq_print {
    ($m:expr, $($args:tt)*) => { $m.print(::core::format_args!($($args)*)) };
}

/// Makes `load()`, which loads the module and returns it; its drop unloads the module.
#[macro_export]
macro_rules! module {
    (type: $ty:ident, $($rest:tt)*) => {
        mod module_parameters {
            #![allow(non_upper_case_globals)]
            pub(super) struct Parameter;
            impl Parameter {
                pub(super) fn value(&self) -> u8 {
                    $crate::sim::parameter()
                }
            }
            pub(super) static register_reads: Parameter = Parameter;
        }

        static THIS_MODULE: $crate::ThisModule = $crate::ThisModule::new();

        /// Loads the module. The drop of what it returns unloads the module.
        pub fn load(
        ) -> $crate::error::Result<::core::pin::Pin<$crate::alloc::KBox<impl ::core::any::Any>>> {
            let init = <$ty as $crate::InPlaceModule>::init(&THIS_MODULE);
            $crate::alloc::KBox::pin_init(init, $crate::alloc::GFP_KERNEL)
        }
    };
}
